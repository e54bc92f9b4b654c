/** Whether the gateway is reachable, for a page without a login and therefore without a stream, and whether it still serves
 * this page's build. */
const RETRY_MS = 5_000;

/** Poll the gateway until it responds. `reached` is called with each result. Returns a function that stops it. */
export function pollHealth(reached: (answers: boolean) => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stopped = false;

  async function ask(): Promise<void> {
    clearTimeout(timer);
    const answers = await fetch('/healthz', {cache: 'no-store', credentials: 'omit'}).then(() => true, () => false);
    if (stopped) return;
    reached(answers);
    if (!answers) timer = setTimeout(() => void ask(), RETRY_MS);
  }

  const again = (): void => { void ask(); };
  addEventListener('online', again);
  addEventListener('offline', again);
  void ask();
  return () => {
    stopped = true;
    clearTimeout(timer);
    removeEventListener('online', again);
    removeEventListener('offline', again);
  };
}

/** Whether only a new page has all files: the gateway serves another build than this page's, or an attempt to load a file has
 * failed, which Chromium remembers for the life of a page, and the gateway is reachable again. */
export async function isStale(hasFailed: boolean): Promise<boolean> {
  const answer = await fetch('/console/').catch(() => undefined);
  return !!answer?.ok && (hasFailed || !(await answer.text()).includes(document.scripts[0]!.getAttribute('src')!));
}
