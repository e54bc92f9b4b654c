/** One request, sent until there is an answer: again under the same key after a lost connection or a request to wait. */
import {Unreachable} from './errors.js';

export type Fetch = (request: Request) => Promise<Response>;

export interface Manners {
  /** How often a request is sent at most. */
  attempts: number;
  /** How long a lost stream is retried without an answer, in milliseconds. */
  streamGiveUpMs: number;
  /** Random numbers from 0 to 1 for the pauses between attempts. */
  draw: () => number;
}

export const PATIENT: Manners = {attempts: 8, streamGiveUpMs: 600_000, draw: Math.random};

const PAUSE_FIRST_MS = 250;
const PAUSE_MOST_MS = 5_000;
const RETRY_AFTER_MOST_MS = 60_000;
const ANSWER_TIMEOUT_MS = 60_000;
/** Refusals after which the same request may be sent again: nothing was changed. */
const PATIENT_CODES: ReadonlySet<unknown> = new Set(['RateLimited', 'Unavailable', 'IdempotencyKeyInUse']);
/** Changes that take no idempotency key. They are never sent twice. */
export const KEYLESS: readonly RegExp[] = [/\/runners\/pair$/, /\/browser-sessions$/, /\/hooks\/[^/]+$/];

/** The pause before the attempt after this one: exponential, bounded, with jitter. */
export function pause(attempt: number, manners: Manners): number {
  return (0.5 + manners.draw() / 2) * Math.min(PAUSE_MOST_MS, PAUSE_FIRST_MS * 2 ** Math.min(attempt - 1, 16));
}

/** Wait. Rejects with the signal's reason if it is aborted meanwhile. */
export function rest(ms: number, signal?: AbortSignal | null): Promise<void> {
  return new Promise((done, failed) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      done();
    }, ms);
    function stop(): void {
      clearTimeout(timer);
      failed(signal?.reason as Error);
    }
    signal?.addEventListener('abort', stop, {once: true});
  });
}

/** Milliseconds that an answer asks to wait before the same is sent again; null if it is final. */
export async function patience(answer: Response, attempt: number, manners: Manners): Promise<number | null> {
  if (answer.status < 400) return null;
  const asked = Number.parseFloat(answer.headers.get('Retry-After') ?? '') * 1000;
  let patient: boolean;
  try {
    patient = PATIENT_CODES.has(((await answer.clone().json()) as {code?: unknown}).code);
  } catch {
    patient = [429, 503].includes(answer.status) && !Number.isNaN(asked);
  }
  if (!patient) return null;
  if (Number.isNaN(asked)) return pause(attempt, manners);
  return asked <= RETRY_AFTER_MOST_MS ? asked : null;
}

/** Make a `fetch` that names each change by an idempotency key, the same for every attempt at it. A request that brings
 * a key keeps it. Throws Unreachable. */
export function patiently(send: Fetch, manners: Manners): Fetch {
  return async (request) => {
    const isChange = !['GET', 'HEAD'].includes(request.method);
    const isKeyless = KEYLESS.some((path) => path.test(new URL(request.url).pathname));
    const headers = new Headers(request.headers);
    if (isChange && !isKeyless && !headers.has('Idempotency-Key')) {
      headers.set('Idempotency-Key', `ts-${crypto.randomUUID()}`);
    }
    const keyed = new Request(request, {headers});
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= manners.attempts;
      let wait: number | null;
      // The limit is for the answer to begin: a long download may take its time.
      const slow = new AbortController();
      const timer = setTimeout(() => { slow.abort(new Error('no answer in time')); }, ANSWER_TIMEOUT_MS);
      try {
        const signal = AbortSignal.any([request.signal, slow.signal]);
        const answer = await send(new Request(keyed.clone(), {signal}));
        wait = isLast ? null : await patience(answer, attempt, manners);
        if (wait === null) return answer;
        await answer.body?.cancel();
      } catch (error) {
        request.signal.throwIfAborted();
        if (isLast || (isChange && isKeyless)) {
          throw new Unreachable(`No gateway answers ${request.method} ${request.url}.`, {cause: error});
        }
        wait = pause(attempt, manners);
      } finally {
        clearTimeout(timer);
      }
      await rest(wait, request.signal);
    }
  };
}
