/** A stream that continues behind its last event after a lost connection. */
import {NotAGateway, refusal, Refused, Unreachable} from './errors.js';
import {events, type RawEvent} from './events.js';
import {patience, pause, rest, type Fetch, type Manners} from './retries.js';

export interface StreamEvent<Data> {
  data: Data;
  event: string;
  /** Where to continue behind it; null for what is not stored, such as a piece of a text that is still written. */
  cursor: string | null;
}

export interface FollowOptions {
  /** Begin behind this cursor. Without it, the stream is read from its start. */
  since?: string;
  signal?: AbortSignal;
  /** Called once for each time that the connection is lost. */
  onLost?: (why: string) => void;
  /** Called when the stream continues; nothing durable is missing in between. */
  onReattached?: () => void;
}

const SILENCE_MOST_MS = 45_000;

/** Follow the stream at this URL until it is over. Throws Refused, and Unreachable after too long without an answer. */
export async function* following<Data>(
  url: string, send: Fetch, manners: Manners, options: FollowOptions = {},
): AsyncGenerator<StreamEvent<Data>> {
  let cursor = options.since ?? null;
  let attempts = 0;
  let awaySince: number | null = null;
  let isLostKnown = false;
  for (;;) {
    let why = 'the gateway ended the stream';
    let isClean = false;
    let wait = 0;
    const silence = new Silence(options.signal);
    try {
      const headers = {Accept: 'text/event-stream', ...(cursor === null ? {} : {'Last-Event-ID': cursor})};
      const answer = await send(new Request(url, {headers, signal: silence.signal}));
      if (answer.status === 204) return;
      if (answer.status >= 400) {
        const asked = await patience(answer, attempts + 1, manners);
        if (asked === null) throw await refusal(answer);
        [why, wait] = ['the gateway asks to wait', asked];
      } else if (answer.body !== null) {
        if (awaySince !== null) {
          if (isLostKnown) options.onReattached?.();
          [awaySince, isLostKnown] = [null, false];
        }
        let isHeard = false;
        isClean = true;
        for await (const one of events(silence.watching(answer.body))) {
          if (one.event === 'behind') {
            [why, isClean] = ['this reader was too slow', false];
            break;
          }
          isHeard = true;
          cursor = one.id ?? cursor;
          if (one.event !== 'heartbeat') yield read<Data>(one);
        }
        attempts = isHeard ? -1 : attempts;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof Refused || error instanceof NotAGateway) throw error;
      [why, isClean] = [error instanceof Error ? error.message : String(error), false];
    } finally {
      silence.stop();
    }
    attempts += 1;
    awaySince ??= Date.now();
    if (!isClean && !isLostKnown) {
      options.onLost?.(why);
      isLostKnown = true;
    }
    if (Date.now() - awaySince > manners.streamGiveUpMs) {
      throw new Unreachable(`The stream ${url} could not be resumed: ${why}`);
    }
    if (attempts > 0) await rest(Math.max(wait, pause(attempts, manners)), options.signal);
  }
}

function read<Data>(one: RawEvent): StreamEvent<Data> {
  try {
    return {data: JSON.parse(one.data) as Data, event: one.event, cursor: one.id};
  } catch (error) {
    throw new NotAGateway(`An event ${JSON.stringify(one.event)} of the stream is not JSON.`, {cause: error});
  }
}

/** Ends a connection that is silent for three of the gateway's heartbeats, or that is not read any more. */
class Silence {
  readonly #controller = new AbortController();
  readonly signal: AbortSignal;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal | undefined) {
    this.signal = outer === undefined ? this.#controller.signal : AbortSignal.any([outer, this.#controller.signal]);
    this.#wait();
  }

  async* watching(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
    const reader = body.getReader();
    try {
      for (;;) {
        this.#wait();
        const {done, value} = await reader.read();
        clearTimeout(this.#timer);  // A slow reader is not a silent gateway.
        if (done) return;
        yield value;
      }
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  }

  /** End the connection, which may still be open. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }

  #wait(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => { this.#controller.abort(new Error('the stream is silent')); }, SILENCE_MOST_MS);
  }
}
