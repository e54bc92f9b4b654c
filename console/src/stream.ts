/** Streams of the API over one WebSocket per tab: after a lost connection, each resumes after its last event. */
import {change, Refused, type Problem} from './api';
import type {components} from './api.generated';

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;
/** The gateway sends a message at least every 15 s. A connection without a message between two checks is treated as lost,
 * and so is one that does not open; this is detected within two checks. */
const SILENCE_CHECK_MS = 25_000;

interface Subscription {
  path: string;
  since: string;
  take: (data: unknown) => void;
}

interface Message {
  ref: string;
  events?: {id?: string | null; data: unknown}[];
  end?: string;
  problem?: Problem;
}

const subscriptions = new Map<string, Subscription>();
let socket: WebSocket | null = null;
let last = 0;

function begin(ref: string): void {
  const wanted = subscriptions.get(ref);
  if (wanted === undefined || socket?.readyState !== WebSocket.OPEN) return;
  const {path, since} = wanted;
  socket.send(JSON.stringify({op: 'subscribe', ref, path: since === '' ? `${path}?last=0` : path, ...(since === '' ? {} : {since})}));
}

/** Subscribe to a stream after the cursor `since`, or from now on if it is "". Returns a function that unsubscribes. */
export function subscribe(path: string, since: string, take: (data: unknown) => void): () => void {
  last += 1;
  const ref = `s${last}`;
  subscriptions.set(ref, {path, since, take});
  begin(ref);
  return () => {
    subscriptions.delete(ref);
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({op: 'unsubscribe', ref}));
  };
}

function receive(text: string): void {
  const message = JSON.parse(text) as Message;
  const wanted = subscriptions.get(message.ref);
  if (wanted === undefined) return;
  for (const event of message.events ?? []) {
    if (event.id) wanted.since = event.id;
    wanted.take(event.data);
  }
  if (message.end === 'behind') begin(message.ref);
  else if (message.problem?.retryable) socket?.close();  // The next socket resumes all streams after a delay.
}

/** Keep the socket open until `stop` is called; `lost` replaces it, if a read has shown that the gateway cannot be reached.
 * `changed` is called when it opens, since anything may have changed meanwhile, for each event of the tenant's feed, and
 * with each attempt that fails, since a proxy may let all but the socket pass; `online` with whether it is open. */
export function connect(changed: () => void, online: (isOpen: boolean) => void): {stop: () => void; lost: () => void} {
  let stopped = false;
  let retry_ms = RETRY_FIRST_MS;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isSilent = false;
  const leave = subscribe('/v1/events', '', changed);
  const check = setInterval(() => {
    if (isSilent) lost();
    isSilent = true;
  }, SILENCE_CHECK_MS);

  async function open(): Promise<void> {
    if (stopped) return;
    isSilent = false;
    try {
      const {ticket} = await change<components['schemas']['StreamTicket']>('/v1/stream-tickets', {path: '/v1/stream'});
      if (stopped || socket !== null) return;  // Another attempt was quicker.
      const url = new URL(`/v1/stream?ticket=${encodeURIComponent(ticket)}`, location.href);
      url.protocol = url.protocol.replace('http', 'ws');
      const opened = socket = new WebSocket(url);
      opened.onopen = () => {
        retry_ms = RETRY_FIRST_MS;
        for (const ref of subscriptions.keys()) begin(ref);
        online(true);
        changed();
      };
      opened.onmessage = (message) => {
        isSilent = false;
        receive(String(message.data));
      };
      opened.onclose = again;
    } catch (error) {
      if (socket !== null) return;
      if (error instanceof Refused && error.status === 401) changed();
      else again();
    }
  }

  function again(): void {
    if (stopped) return;
    abandon();
    online(false);
    changed();
    timer = setTimeout(soon, retry_ms * (0.5 + Math.random()));
    retry_ms = Math.min(retry_ms * 2, RETRY_MOST_MS);
  }

  function lost(): void {
    if (timer === undefined) again();
  }

  /** Make the next attempt now, if one is scheduled. */
  function soon(): void {
    if (timer === undefined) return;
    clearTimeout(timer);
    timer = undefined;
    void open();
  }

  /** Close the current socket without handling its end. */
  function abandon(): void {
    if (socket === null) return;
    socket.onclose = null;
    socket.close();
    socket = null;
  }

  /** Open a new socket when the network is lost: the current one is not closed by that, and may not work afterwards. With
   * a gateway on the same machine this succeeds immediately. */
  function renew(): void {
    if (socket?.readyState === WebSocket.OPEN) {
      abandon();
      void open();
    }
  }

  void open();
  addEventListener('online', soon);
  addEventListener('offline', renew);
  return {lost, stop: () => {
    stopped = true;
    removeEventListener('online', soon);
    removeEventListener('offline', renew);
    clearInterval(check);
    leave();
    abandon();
  }};
}
