/** Whether the gateway answers, for a page that is not logged in and so has no stream that would show it; and whether it still serves this page's build. */
const RETRY_MS = 5_000;

/** Ask the gateway until it answers. `reached` is called with each result; returns what ends it. */
export function untilReached(reached: (answers: boolean) => void): () => void {
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

/** Whether the gateway serves another build than the one that this page is of, some of whose files it then has no more. */
export async function isStale(): Promise<boolean> {
  const answer = await fetch('/console/').catch(() => null);
  return answer?.ok === true && !(await answer.text()).includes(document.scripts[0]!.getAttribute('src')!);
}
