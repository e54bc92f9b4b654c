/** Error messages of failed requests, in the user's language, and reads with retries. */
import {Refused} from './api';
import {i18n} from './i18n.svelte';

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;
/** HTTP statuses after which a retry can succeed: too many requests, and from 500 on the gateway's own failures. */
const TOO_MANY = 429;
const FAILED = 500;

/** Return the message of a failed request. A change without a response may have been made. */
export function messageOf(error: unknown): string {
  if (error instanceof TypeError) return i18n.get('noAnswer');  // Fetch raises this if there is no response.
  return error instanceof Error ? error.message : String(error);
}

/** Return the message of a failed request; "" if it succeeded. Views show that of a change until the next change, although
 * they are read again in between. */
export async function failureOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
    return '';
  } catch (error) {
    return messageOf(error);
  }
}

/** Whether a retry of the same request would fail again. */
export function isPermanent(error: unknown): boolean {
  return error instanceof Refused && error.status !== TOO_MANY && error.status < FAILED;
}

/** Read what a view needs, with retries and backoff while there is no response or the gateway fails. `failed` is called
 * with the message after each failed attempt, with "" if there was no response. Returns a function that stops it. */
export function readWithRetry(work: () => Promise<void>, failed: (reason: string) => void): () => void {
  let stopped = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let retry_ms = RETRY_FIRST_MS;

  async function attempt(): Promise<void> {
    clearTimeout(timer);
    try {
      await work();
    } catch (error) {
      if (stopped) return;
      failed(error instanceof TypeError ? '' : messageOf(error));  // The page itself shows a lost connection.
      if (isPermanent(error)) return;
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
