/** Follows a stream of server-sent events, and resumes it after its last event if the connection is lost. */
import {NotAGateway, refusal, Refused, Unreachable} from './errors.js';
import {events, type RawEvent} from './events.js';
import {backoffMs, retryDelayMs, sleep, type Fetch, type RetryPolicy} from './retries.js';

export interface StreamEvent<Data> {
  data: Data;
  event: string;
  /** Where to resume after this event; null if it is not stored, such as a delta of an unfinished text. */
  cursor: string | null;
}

export interface FollowOptions {
  /** Start after this cursor. Without it, the stream is read from its beginning. */
  since?: string;
  signal?: AbortSignal;
  /** Called once each time that the connection is lost. */
  onLost?: (reason: string) => void;
  /** Called when the stream resumes; no durable event is missing in between. */
  onReattached?: () => void;
}

const IDLE_TIMEOUT_MS = 45_000;

/** Yield the events of the stream at this URL until it ends. Throws Refused, and Unreachable if it cannot be resumed for
 * `streamGiveUpMs`. */
export async function* follow<Data>(
  url: string, send: Fetch, retries: RetryPolicy, options: FollowOptions = {},
): AsyncGenerator<StreamEvent<Data>> {
  let cursor = options.since ?? null;
  let attempts = 0;
  let lostAtMs: number | null = null;
  let isLossReported = false;
  for (;;) {
    let reason = 'the gateway ended the stream';
    let isClean = false;
    let delayMs = 0;
    const idle = new IdleTimeout(options.signal);
    try {
      const headers = {Accept: 'text/event-stream', ...(cursor === null ? {} : {'Last-Event-ID': cursor})};
      const response = await send(new Request(url, {headers, signal: idle.signal}));
      if (response.status === 204) return;
      if (response.status >= 400) {
        const requestedMs = await retryDelayMs(response, attempts + 1, retries);
        if (requestedMs === null) throw await refusal(response);
        [reason, delayMs] = ['the gateway requested a delay', requestedMs];
      } else if (response.body !== null) {
        if (lostAtMs !== null) {
          if (isLossReported) options.onReattached?.();
          [lostAtMs, isLossReported] = [null, false];
        }
        let hasEvents = false;
        isClean = true;
        for await (const event of events(idle.readChunks(response.body))) {
          if (event.event === 'behind') {
            [reason, isClean] = ['this reader was too slow', false];
            break;
          }
          hasEvents = true;
          cursor = event.id ?? cursor;
          if (event.event !== 'heartbeat') yield parse<Data>(event);
        }
        attempts = hasEvents ? -1 : attempts;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof Refused || error instanceof NotAGateway) throw error;
      [reason, isClean] = [error instanceof Error ? error.message : String(error), false];
    } finally {
      idle.stop();
    }
    attempts += 1;
    lostAtMs ??= Date.now();
    if (!isClean && !isLossReported) {
      options.onLost?.(reason);
      isLossReported = true;
    }
    if (Date.now() - lostAtMs > retries.streamGiveUpMs) {
      throw new Unreachable(`The stream ${url} could not be resumed: ${reason}`);
    }
    if (attempts > 0) await sleep(Math.max(delayMs, backoffMs(attempts, retries)), options.signal);
  }
}

function parse<Data>(event: RawEvent): StreamEvent<Data> {
  try {
    return {data: JSON.parse(event.data) as Data, event: event.event, cursor: event.id};
  } catch (error) {
    throw new NotAGateway(`An event ${JSON.stringify(event.event)} of the stream is not JSON.`, {cause: error});
  }
}

/** Aborts a connection that is silent for three of the gateway's heartbeats, or whose reader stopped. */
class IdleTimeout {
  readonly #controller = new AbortController();
  readonly signal: AbortSignal;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal | undefined) {
    this.signal = outer === undefined ? this.#controller.signal : AbortSignal.any([outer, this.#controller.signal]);
    this.#restart();
  }

  /** Yield the chunks of a body; the timeout runs only while a chunk is awaited. */
  async* readChunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = body.getReader();
    try {
      for (;;) {
        this.#restart();
        const {done, value} = await reader.read();
        clearTimeout(this.#timer);  // A slow consumer does not count as a silent gateway.
        if (done) return;
        yield value;
      }
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  }

  /** Abort the connection, which may still be open. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }

  #restart(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.#controller.abort(new Error('the stream is silent')); }, IDLE_TIMEOUT_MS);
  }
}
