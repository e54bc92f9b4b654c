/** The gateway's API, as this page uses it. A login has two halves: a cookie that the page never sees, and one that
 * this tab keeps and sends as a header (J-15). */
import type {components} from './api.generated';

export type Approval = components['schemas']['Approval'];
export type Whoami = components['schemas']['Whoami'];
export type AuditKey = components['schemas']['AuditKey'];
export type AuditLine = components['schemas']['AuditLine'];
export type Command = components['schemas']['Command'];
export type CommandPage = components['schemas']['CommandPage'];
export type StatusEvent = components['schemas']['StatusEvent'];
export type Explanation = components['schemas']['Explanation'];
export type RememberedRule = components['schemas']['RememberedRule'];
type Opened = components['schemas']['OpenedBrowserSession'];
type Problem = components['schemas']['Problem'];

const HALF = 'interlock.half';
const WHO = 'interlock.who';

export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, detail: string) {
    super(detail);
  }
}

/** This tab's half of the login, for a worker that sends requests itself. */
export function half(): string | null {
  return sessionStorage.getItem(HALF);
}

export function isLoggedIn(): boolean {
  return half() !== null;
}

/** Who this tab is logged in as, by the login's answer. */
export function who(): Whoami | null {
  const text = sessionStorage.getItem(WHO);
  return text === null ? null : (JSON.parse(text) as Whoami);
}

const AUDITORS: ReadonlySet<string> = new Set(['auditor', 'admin', 'owner']);

/** Whether this person may read the audit log. */
export function isAuditor(): boolean {
  return who()?.roles.some((role) => AUDITORS.has(role)) ?? false;
}

const ADMINS: ReadonlySet<string> = new Set(['admin', 'owner']);

/** Whether this person may change keys, runners and rules. */
export function isAdmin(): boolean {
  return who()?.roles.some((role) => ADMINS.has(role)) ?? false;
}

async function send(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const sent = half();
  if (sent !== null) headers.set('Interlock-Browser', sent);
  const answer = await fetch(path, {...options, headers, credentials: 'same-origin', cache: 'no-store'});
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => null) as Problem | null;
  if (answer.status === 401 && sent !== null) forget();
  throw new Refused(answer.status, problem?.code ?? '', problem?.detail ?? answer.statusText);
}

/** Read a resource of the API.
 *
 * Raises: Refused. */
export async function read<T>(path: string): Promise<T> {
  return await (await send(path)).json() as T;
}
read.raw = (path: string): Promise<Response> => send(path);

function post(path: string, body: unknown): Promise<Response> {
  return send(path, {method: 'POST', body: JSON.stringify(body), headers: {
    'Content-Type': 'application/json', 'Idempotency-Key': `console-${crypto.randomUUID()}`}});
}

function forget(): void {
  sessionStorage.removeItem(HALF);
  sessionStorage.removeItem(WHO);
}

/** Log in with the code of a link, or with a key. */
export async function logIn(by: {code: string} | {key: string}): Promise<void> {
  const opened = await (await post('/v1/browser-sessions', by)).json() as Opened;
  sessionStorage.setItem(HALF, opened.half);
  sessionStorage.setItem(WHO, JSON.stringify(opened.principal));
}

export async function logOut(): Promise<void> {
  try {
    await send('/v1/browser-sessions/me', {method: 'DELETE', headers: {
      'Idempotency-Key': `console-${crypto.randomUUID()}`}});
  } finally {
    forget();
  }
}

/** Revoke a remembered rule.
 *
 * Raises: Refused. */
export async function revokeRule(id: string): Promise<void> {
  await post(`/v1/policy/rules/${encodeURIComponent(id)}/revoke`, {});
}

/** All approvals that wait, oldest first. */
export async function pending(): Promise<Approval[]> {
  const found: Approval[] = [];
  let cursor = '';
  for (;;) {
    const page = await (await send(`/v1/approvals?state=pending&limit=100${cursor}`)).json() as
      components['schemas']['ApprovalPage'];
    found.push(...page.items);
    if (!page.has_more || page.next_cursor === null) return found.sort((one, other) => one.created_at.localeCompare(other.created_at));
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}

export async function approval(id: string): Promise<Approval> {
  return await (await send(`/v1/approvals/${encodeURIComponent(id)}`)).json() as Approval;
}

/** The very bytes that a vote is about (J-12). */
export async function input(id: string): Promise<ArrayBuffer> {
  return await (await send(`/v1/approvals/${encodeURIComponent(id)}/input`)).arrayBuffer();
}

/** Vote on what has this digest, which this page worked out from the bytes that it showed (J-17). A no to what could
 * not be shown has none. */
export async function vote(
  id: string, decision: 'grant' | 'deny', digest: string, comment: string,
): Promise<Approval> {
  const body = {decision, method: 'acl', ...(digest === '' ? {} : {digest}), ...(comment === '' ? {} : {comment})};
  return await (await post(`/v1/approvals/${encodeURIComponent(id)}/grants`, body)).json() as Approval;
}

const RETRY_FIRST_MS = 500;
const RETRY_MOST_MS = 10_000;

/** Call `changed` when anything of the tenant changed, over one WebSocket, until `stop` is called. `online` says
 * whether it is open. */
export function follow(changed: () => void, online: (isOpen: boolean) => void): () => void {
  let stopped = false;
  let socket: WebSocket | null = null;
  let retry_ms = RETRY_FIRST_MS;
  let since: string | undefined;

  async function open(): Promise<void> {
    if (stopped) return;
    try {
      const {ticket} = await (await post('/v1/stream-tickets', {path: '/v1/stream'})).json() as
        components['schemas']['StreamTicket'];
      if (stopped) return;
      const url = new URL(`/v1/stream?ticket=${encodeURIComponent(ticket)}`, location.href);
      url.protocol = url.protocol.replace('http', 'ws');
      socket = new WebSocket(url);
      socket.onopen = () => {
        retry_ms = RETRY_FIRST_MS;
        socket?.send(JSON.stringify({op: 'subscribe', ref: 'feed', path: '/v1/events', ...(since ? {since} : {})}));
        online(true);
        changed();
      };
      socket.onmessage = (message) => {
        const told = JSON.parse(String(message.data)) as {events?: {id?: string}[]};
        since = told.events?.at(-1)?.id ?? since;
        if (told.events !== undefined) changed();
      };
      socket.onclose = again;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) changed();
      else again();
    }
  }

  function again(): void {
    if (stopped) return;
    online(false);
    setTimeout(() => void open(), retry_ms * (0.5 + Math.random()));
    retry_ms = Math.min(retry_ms * 2, RETRY_MOST_MS);
  }

  void open();
  return () => {
    stopped = true;
    socket?.close();
  };
}
