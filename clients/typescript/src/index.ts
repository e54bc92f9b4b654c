/** A typed client of an Interlock gateway.
 *
 *     const gateway = connect();
 *     const {data: command} = await gateway.api.POST('/v1/commands', {body: {…}});
 *     for await (const {data} of gateway.followCommand(command.id)) console.log(data.state);
 */
import createClient, {type Client} from 'openapi-fetch';
import type {components, paths} from './api.generated.js';
import {refusal} from './errors.js';
import {follow, type FollowOptions, type StreamEvent} from './follower.js';
import {DEFAULT_RETRIES, withRetries, type Fetch, type RetryPolicy} from './retries.js';

export type {components, paths} from './api.generated.js';
export {NotAGateway, Refused, Unreachable, type Problem} from './errors.js';
export type {FollowOptions, StreamEvent} from './follower.js';
export {type Fetch, type RetryPolicy} from './retries.js';

export type Schemas = components['schemas'];

export interface Options {
  /** The gateway's URL; `INTERLOCK_URL` of the environment by default. */
  url?: string;
  /** An API key; `INTERLOCK_KEY` of the environment by default. */
  key?: string;
  /** Send the key unencrypted to a host other than this one. */
  inClear?: boolean;
  retries?: Partial<RetryPolicy>;
  fetch?: Fetch;
}

export interface Gateway {
  /** Every operation of the OpenAPI document, by path: `api.GET('/v1/status')`. A refusal is thrown as Refused. A change
   * without an idempotency key gets one, and keeps it over all attempts. */
  api: Client<paths>;
  /** Follow the status events of a command until it has ended. */
  followCommand: (commandId: string, options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['StatusEvent']>>;
  /** Follow a session's frames, in both directions. */
  followSession: (sessionId: string, options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['FrameEvent']>>;
  /** Follow the tenant's feed: what changed, and the path where it can be read. */
  followEvents: (options?: FollowOptions) => AsyncGenerator<StreamEvent<Schemas['FeedEvent']>>;
}

const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost']);

/** Create a client; nothing is sent before the first call. Throws TypeError for an invalid URL or a missing key. */
export function connect(options: Options = {}): Gateway {
  const environment = typeof process === 'undefined' ? {} : process.env;
  const base = checkedUrl(options.url ?? environment.INTERLOCK_URL, options.inClear ?? false);
  const key = options.key ?? environment.INTERLOCK_KEY;
  if (!key) throw new TypeError('no key: pass `key`, or set INTERLOCK_KEY');
  const retries = {...DEFAULT_RETRIES, ...options.retries};
  const baseFetch = options.fetch ?? ((request: Request) => fetch(request));
  const send: Fetch = (request) => {
    request.headers.set('Authorization', `Bearer ${key}`);
    return baseFetch(request);
  };
  const api = createClient<paths>({baseUrl: base, fetch: withRetries(send, retries)});
  api.use({
    async onResponse({response}) {
      if (response.status >= 400) throw await refusal(response);
    },
  });
  function followPath<Data>(path: string, options?: FollowOptions): AsyncGenerator<StreamEvent<Data>> {
    return follow<Data>(base + path, send, retries, options);
  }
  return {
    api,
    followCommand: (id, options) => followPath(`/v1/commands/${encodeURIComponent(id)}/status`, options),
    followSession: (id, options) => followPath(`/v1/sessions/${encodeURIComponent(id)}/frames`, options),
    followEvents: (options) => followPath('/v1/events', options),
  };
}

function checkedUrl(url: string | undefined, inClear: boolean): string {
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
