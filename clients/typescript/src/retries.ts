/** Sends one request until it has a response: repeated under the same key after a lost connection or a Retry-After. */
import {Unreachable} from './errors.js';

export type Fetch = (request: Request) => Promise<Response>;

export interface RetryPolicy {
  /** Maximum attempts of a request. */
  attempts: number;
  /** How long a lost stream is reopened without a response before it is abandoned, in milliseconds. */
  streamGiveUpMs: number;
  /** Returns 0 to 1: jitter for the delays between attempts. */
  draw: () => number;
}

export const DEFAULT_RETRIES: RetryPolicy = {attempts: 8, streamGiveUpMs: 600_000, draw: Math.random};

const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 5_000;
const RETRY_AFTER_MAX_MS = 60_000;
const RESPONSE_TIMEOUT_MS = 60_000;
/** Refusals after which the same request can be sent again: nothing was changed. */
const RETRYABLE_CODES: ReadonlySet<unknown> = new Set(['RateLimited', 'Unavailable', 'IdempotencyKeyInUse']);
/** Changes that accept no idempotency key. They are never sent twice. */
export const KEYLESS: readonly RegExp[] = [/\/runners\/pair$/, /\/browser-sessions$/, /\/hooks\/[^/]+$/];

/** Return the delay in milliseconds before attempt number `attempt` + 1: exponential, bounded, with jitter. */
export function backoffMs(attempt: number, retries: RetryPolicy): number {
  return (0.5 + retries.draw() / 2) * Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** Math.min(attempt - 1, 16));
}

/** Wait for some milliseconds. Rejects with the signal's reason if it is aborted. */
export function sleep(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, ms);
    function abort(): void {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    }
    signal?.addEventListener('abort', abort, {once: true});
  });
}

/** Return the delay in milliseconds before the request is repeated; null if this response is final. */
export async function retryDelayMs(response: Response, attempt: number, retries: RetryPolicy): Promise<number | null> {
  if (response.status < 400) return null;
  const retryAfterMs = Number.parseFloat(response.headers.get('Retry-After') ?? '') * 1000;
  let isRetryable: boolean;
  try {
    isRetryable = RETRYABLE_CODES.has(((await response.clone().json()) as {code?: unknown}).code);
  } catch {
    isRetryable = [429, 503].includes(response.status) && !Number.isNaN(retryAfterMs);
  }
  if (!isRetryable) return null;
  if (Number.isNaN(retryAfterMs)) return backoffMs(attempt, retries);
  return retryAfterMs <= RETRY_AFTER_MAX_MS ? retryAfterMs : null;
}

/** Wrap `fetch` with retries and an idempotency key for each change, the same for all its attempts. A request that has
 * a key keeps it. Throws Unreachable. */
export function withRetries(send: Fetch, retries: RetryPolicy): Fetch {
  return async (request) => {
    const isChange = !['GET', 'HEAD'].includes(request.method);
    const isKeyless = KEYLESS.some((path) => path.test(new URL(request.url).pathname));
    const headers = new Headers(request.headers);
    if (isChange && !isKeyless && !headers.has('Idempotency-Key')) {
      headers.set('Idempotency-Key', `ts-${crypto.randomUUID()}`);
    }
    const keyed = new Request(request, {headers});
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= retries.attempts;
      let delayMs: number | null;
      // Only the start of the response is limited: a download may take longer.
      const timeout = new AbortController();
      const timer = setTimeout(() => { timeout.abort(new Error('no response in time')); }, RESPONSE_TIMEOUT_MS);
      try {
        const signal = AbortSignal.any([request.signal, timeout.signal]);
        const response = await send(new Request(keyed.clone(), {signal}));
        delayMs = isLast ? null : await retryDelayMs(response, attempt, retries);
        if (delayMs === null) return response;
        await response.body?.cancel();
      } catch (error) {
        request.signal.throwIfAborted();
        if (isLast || (isChange && isKeyless)) {
          throw new Unreachable(`No gateway answers ${request.method} ${request.url}.`, {cause: error});
        }
        delayMs = backoffMs(attempt, retries);
      } finally {
        clearTimeout(timer);
      }
      await sleep(delayMs, request.signal);
    }
  };
}
