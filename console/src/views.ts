/** The views beside approvals: each has a URL and is loaded when it is opened. */
import type {Component} from 'svelte';

import type {Approval} from './api';
import type {Word} from './messages';

export interface View {
  path: string;
  name: Word;
  /** Only people with one of these roles see it; everybody if there are none. */
  roles: readonly string[];
  /** It is a tab of the inbox, and has no place of its own beside it. */
  isTab?: boolean;
  /** `version` grows with each change of the tenant; `waiting` are the approvals that wait. */
  load: () => Promise<{default: Component<{version: number; waiting: Approval[] | null}>}>;
}

function view(name: Word, load: View['load'], more: Partial<View> = {}): View {
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

/** What is shown at an address that names no view. */
const notFound: Opened = {name: 'notFound', roles: [], load: () => import('./notfound/NotFound.svelte')};

/** One thing of a view, by its id. */
const PART = /^\/console\/\w+\/[\w-]{1,64}$/;

/** The view of a path. */
export function viewAt(path: string): Opened {
  return path === '/console/' ? inbox : views.find((view) => path === view.path || path.startsWith(`${view.path}/`) && PART.test(path)) ?? notFound;
}
