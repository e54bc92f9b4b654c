/** A typed client of an Interlock gateway.
 *
 *     const gateway = connect();
 *     const {data: command} = await gateway.api.POST('/v1/commands', {body: {…}});
 *     for await (const {data} of gateway.followCommand(command.id)) console.log(data.state);
 */
import createClient, {type Client} from 'openapi-fetch';
import type {components, paths} from './api.generated.js';
import {refusal} from './errors.js';
import {following, type FollowOptions, type StreamEvent} from './follower.js';
import {PATIENT, patiently, type Fetch, type Manners} from './retries.js';

export type {components, paths} from './api.generated.js';
export {NotAGateway, Refused, Unreachable, type Problem} from './errors.js';
export type {FollowOptions, StreamEvent} from './follower.js';
export {type Fetch, type Manners} from './retries.js';

export type Schemas = components['schemas'];

export interface Options {
  /** The gateway's URL; else `INTERLOCK_URL` of the environment. */
  url?: string;
  /** A key; else `INTERLOCK_KEY` of the environment. */
  key?: string;
  /** Send the key unencrypted to a host other than this one. */
  inClear?: boolean;
  manners?: Partial<Manners>;
  fetch?: Fetch;
}

export interface Gateway {
  /** Every operation of the OpenAPI document, by path: `api.GET('/v1/status')`. A refusal is thrown as Refused. A change
   * gets an idempotency key if it brings none, and keeps it over all attempts. */
  api: Client<paths>;
  /** Follow what becomes of a command, until it has ended. */
  followCommand: (commandId: string, options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['StatusEvent']>>;
  /** Follow a session's frames, in both directions. */
  followSession: (sessionId: string, options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['FrameEvent']>>;
  /** Follow what changes in the tenant, and where to read it. */
  followEvents: (options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['FeedEvent']>>;
}

const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

/** Name a gateway and a key; nothing is sent before the first call. Throws TypeError for an address or key that cannot
 * be used. */
export function connect(options: Options = {}): Gateway {
  const environment = typeof process === 'undefined' ? {} : process.env;
  const base = place(options.url ?? environment.INTERLOCK_URL, options.inClear ?? false);
  const key = options.key ?? environment.INTERLOCK_KEY;
  if (!key) throw new TypeError('no key: pass `key`, or set INTERLOCK_KEY');
  const manners = {...PATIENT, ...options.manners};
  const given = options.fetch ?? ((request: Request) => fetch(request));
  const send: Fetch = (request) => {
    request.headers.set('Authorization', `Bearer ${key}`);
    return given(request);
  };
  const api = createClient<paths>({baseUrl: base, fetch: patiently(send, manners)});
  api.use({
    async onResponse({response}) {
      if (response.status >= 400) throw await refusal(response);
    },
  });
  function follow<Data>(path: string, wanted?: FollowOptions): AsyncGenerator<StreamEvent<Data>> {
    return following<Data>(base + path, send, manners, wanted);
  }
  return {
    api,
    followCommand: (id, wanted) => follow(`/v1/commands/${encodeURIComponent(id)}/status`, wanted),
    followSession: (id, wanted) => follow(`/v1/sessions/${encodeURIComponent(id)}/frames`, wanted),
    followEvents: (wanted) => follow('/v1/events', wanted),
  };
}

function place(url: string | undefined, inClear: boolean): string {
  if (!url) throw new TypeError('no url: pass `url`, or set INTERLOCK_URL');
  const parts = URL.canParse(url) ? new URL(url) : null;
  if (parts === null || !['http:', 'https:'].includes(parts.protocol) || parts.username || parts.search || parts.hash) {
    throw new TypeError(`${JSON.stringify(url)} is not a gateway's URL: write http://127.0.0.1:7420`);
  }
  if (parts.protocol === 'http:' && !inClear && !LOOPBACK.has(parts.hostname)) {
    throw new TypeError(`the key would go to ${parts.hostname} unencrypted: use https, or pass inClear`);
  }
  return url.replace(/\/+$/, '');
}
