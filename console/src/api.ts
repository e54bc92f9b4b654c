/** The gateway's API, as this page uses it. A login has two halves: a cookie that the page never sees, and one that
 * this tab keeps and sends as a header (J-15). */
import type {components} from './api.generated';

export type Approval = components['schemas']['Approval'];
export type Session = components['schemas']['Session'];
export type Whoami = components['schemas']['Whoami'];
export type AuditKey = components['schemas']['AuditKey'];
export type AuditLine = components['schemas']['AuditLine'];
export type Command = components['schemas']['Command'];
export type CommandPage = components['schemas']['CommandPage'];
export type StatusEvent = components['schemas']['StatusEvent'];
export type Explanation = components['schemas']['Explanation'];
export type PolicyReplay = components['schemas']['PolicyReplay'];
export type RememberedRule = components['schemas']['RememberedRule'];
export type Node = components['schemas']['Node'];
export type Drain = components['schemas']['Drain'];
export type PairingCode = components['schemas']['PairingCode'];
/** What a vote may carry beside its decision. */
export type Answer = Partial<Pick<components['schemas']['GrantBody'], 'remember' | 'updated_input' | 'method' | 'key_id' | 'at' | 'assertion'>>;
/** Signs a vote: what it must carry for that. */
export type Sign = (decision: 'grant' | 'deny') => Promise<Answer>;
type Opened = components['schemas']['OpenedBrowserSession'];
export type Problem = components['schemas']['Problem'];

/** Under these names a tab, or a browser that is notified, keeps its login. */
export const HALF = 'interlock.half';
export const WHO = 'interlock.who';

export class Refused extends Error {
  constructor(readonly status: number, detail: string) {
    super(detail);
  }
}

/** This tab's half of the login, for a worker that sends requests itself. Of a device that is notified it is kept when
 * the page is closed: a notice opens a new one. */
export function half(): string | null {
  return sessionStorage.getItem(HALF) ?? localStorage.getItem(HALF);
}

export function isLoggedIn(): boolean {
  return half() !== null;
}

/** Who this tab is logged in as, by the login's answer. */
export function currentUser(): Whoami | null {
  const text = sessionStorage.getItem(WHO) ?? localStorage.getItem(WHO);
  return text === null ? null : (JSON.parse(text) as Whoami);
}

/** Whether this person has one of these roles. */
export function hasRole(...roles: string[]): boolean {
  return currentUser()?.roles.some((role) => roles.includes(role)) ?? false;
}

/** Whether this person may vote. */
export function mayVote(): boolean {
  return hasRole('approver', 'admin', 'owner');
}

/** How far the gateway's clock is ahead of this device's. Its answers have whole seconds, and take a while. */
let ahead_ms = 0;
const NOTABLE_MS = 5_000;

/** This moment by the gateway's clock, by which approvals expire. */
export function now(): number {
  return Date.now() + ahead_ms;
}

/** After this long without the beginning of an answer a read is given up, as if the gateway could not be reached: when
 * the network changes under a connection, a request on it may never be answered. A change is not given up, since it may
 * have been made. */
const READ_TIMEOUT_MS = 30_000;

async function send(path: string, options: RequestInit = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  const sent = half();
  if (sent !== null) headers.set('Interlock-Browser', sent);
  const giveUp = new AbortController();
  const timer = setTimeout(() => { if (!options.method) giveUp.abort(new TypeError()); }, READ_TIMEOUT_MS);
  const answer = await fetch(path, {...options, headers, credentials: 'same-origin', cache: 'no-store', signal: giveUp.signal})
    .finally(() => { clearTimeout(timer); });
  const off_ms = Date.parse(answer.headers.get('Date') ?? '') - Date.now();
  ahead_ms = Math.abs(off_ms) > NOTABLE_MS ? off_ms : 0;
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => null) as Problem | null;
  if (answer.status === 401 && sent !== null) forget();
  throw new Refused(answer.status, problem?.detail ?? answer.statusText);
}

/** Read a resource of the API.
 *
 * Raises: Refused. */
export async function read<T>(path: string): Promise<T> {
  return await (await send(path)).json() as T;
}
read.raw = (path: string): Promise<Response> => send(path);

function write(method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<Response> {
  return send(path, {method, body: JSON.stringify(body), headers: {
    'Content-Type': 'application/json', 'Idempotency-Key': `console-${crypto.randomUUID()}`}});
}

/** Change something by one request, which is not repeated.
 *
 * Raises: Refused. */
export async function change<T>(path: string, body: unknown): Promise<T> {
  return await (await write('POST', path, body)).json() as T;
}

/** Set fields of something by one request, which is not repeated.
 *
 * Raises: Refused. */
export async function patch<T>(path: string, body: unknown): Promise<T> {
  return await (await write('PATCH', path, body)).json() as T;
}

/** End something by one request, which is not repeated.
 *
 * Raises: Refused. */
export async function remove(path: string): Promise<void> {
  await write('DELETE', path);
}

function forget(): void {
  if (localStorage.getItem(HALF) === half()) {
    localStorage.removeItem(HALF);
    localStorage.removeItem(WHO);
  }
  sessionStorage.removeItem(HALF);
  sessionStorage.removeItem(WHO);
}

/** Log in with the code of a link, or with a key. */
export async function logIn(by: {code: string} | {key: string}): Promise<void> {
  const opened = await change<Opened>('/v1/browser-sessions', by);
  sessionStorage.setItem(HALF, opened.half);
  sessionStorage.setItem(WHO, JSON.stringify(opened.principal));
}

export async function logOut(): Promise<void> {
  localStorage.removeItem('interlock.notices');
  try {
    await remove('/v1/browser-sessions/me');
  } finally {
    forget();
  }
}

/** All approvals that wait, oldest first. A page is as long as the gateway allows. */
export async function pending(): Promise<Approval[]> {
  const found: Approval[] = [];
  let cursor = '';
  for (;;) {
    const page = await read<components['schemas']['ApprovalPage']>(`/v1/approvals?state=pending&limit=500${cursor}`);
    found.push(...page.items);
    if (!page.has_more || page.next_cursor === null) return found.sort((one, other) => one.created_at.localeCompare(other.created_at));
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
  }
}

export function approval(id: string): Promise<Approval> {
  return read(`/v1/approvals/${encodeURIComponent(id)}`);
}

/** The very bytes that a vote is about (J-12). */
export async function input(id: string): Promise<ArrayBuffer> {
  return await (await send(`/v1/approvals/${encodeURIComponent(id)}/input`)).arrayBuffer();
}

/** Vote on what has this digest, which this page worked out from the bytes that it showed (J-17). A no to what could
 * not be shown has none. */
export function vote(
  id: string, decision: 'grant' | 'deny', digest: string, comment: string, more: Answer = {},
): Promise<Approval> {
  const body = {method: 'acl', ...more, decision, ...(digest === '' ? {} : {digest}), ...(comment === '' ? {} : {comment})};
  return change(`/v1/approvals/${encodeURIComponent(id)}/grants`, body);
}
