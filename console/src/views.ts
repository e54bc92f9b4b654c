/** The views other than a single approval: each has a URL and is loaded when it is opened. */
import type {Component} from 'svelte';

import type {Approval} from './api';
import type {MessageKey} from './messages';

export interface View {
  path: string;
  name: MessageKey;
  /** The roles that may see it; empty if all may. */
  roles: readonly string[];
  /** It is a tab of the inbox, without a link of its own in the navigation. */
  isTab?: boolean;
  /** `version` grows with each change of the tenant; `waiting` are the pending approvals. */
  load: () => Promise<{default: Component<{version: number; waiting: Approval[] | null}>}>;
}

function view(name: MessageKey, load: View['load'], more: Partial<View> = {}): View {
  return {path: `/console/${name}`, name, roles: [], load, ...more};
}

export const views: readonly View[] = [
  view('decided', () => import('./decided/Decided.svelte'), {isTab: true}),
  view('sessions', () => import('./sessions/Sessions.svelte')),
  view('commands', () => import('./commands/Commands.svelte')),
  view('runners', () => import('./runners/Runners.svelte')),
  view('usage', () => import('./usage/Usage.svelte')),
  view('policy', () => import('./policy/Policy.svelte')),
  view('audit', () => import('./audit/Audit.svelte'), {roles: ['auditor', 'admin', 'owner']}),
  view('access', () => import('./access/Access.svelte')),
  view('settings', () => import('./settings/Settings.svelte')),
];

type Opened = Pick<View, 'name' | 'roles' | 'isTab' | 'load'>;

const inbox: Opened = {name: 'inbox', roles: [], isTab: true, load: () => import('./Inbox.svelte')};

/** The view of an unknown path. */
const notFound: Opened = {name: 'notFound', roles: [], load: () => import('./notfound/NotFound.svelte')};

/** The path of one resource of a view, by its id. */
const PART = /^\/console\/\w+\/[\w-]{1,64}$/;

/** The view of a path. */
export function viewAt(path: string): Opened {
  return path === '/console/' ? inbox : views.find((view) => path === view.path || path.startsWith(`${view.path}/`) && PART.test(path)) ?? notFound;
}
