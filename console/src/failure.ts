/** Requests that fail: why, in the reader's words, and reads that are made again. */
import {Refused} from './api';
import {words} from './language.svelte';

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;
/** Statuses of refusals that pass: too many requests, and whatever is wrong with the gateway itself. */
const TOO_MANY = 429;
const FAILED = 500;

/** Why a request failed. A change that was not answered may have been made all the same. */
export function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return words.get('noAnswer');  // What fetch raises when no answer comes.
  return error instanceof Error ? error.message : String(error);
}

/** Why a request failed; "" if it did not. Why a change was refused is shown until the next one, although the view is read
 * again meanwhile. */
export async function refused(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return '';
  } catch (error) {
    return reasonOf(error);
  }
}

/** Whether the same request would be refused again. */
export function isForGood(error: unknown): boolean {
  return error instanceof Refused && error.status !== TOO_MANY && error.status < FAILED;
}

/** Read what a view cannot do without: again while no answer comes or the gateway fails, ever more seldom. `failed` is
 * called with why after each attempt, with nothing if no answer came. Returns what ends it. */
export function untilRead(work: () => Promise<void>, failed: (reason: string) => void): () => void {
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retry_ms = RETRY_FIRST_MS;

  async function attempt(): Promise<void> {
    clearTimeout(timer);
    try {
      await work();
    } catch (error) {
      if (stopped) return;
      failed(error instanceof TypeError ? '' : reasonOf(error));  // The page itself shows a lost connection.
      if (isForGood(error)) return;
      timer = setTimeout(() => void attempt(), retry_ms);
      retry_ms = Math.min(retry_ms * 2, RETRY_MOST_MS);
    }
  }

  void attempt();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
