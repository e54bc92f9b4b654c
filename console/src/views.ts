/** The views beside approvals: each has a URL and is loaded when it is opened. */
import type {Component} from 'svelte';

import type {Word} from './words';

export interface View {
  path: string;
  name: Word;
  /** Only people with one of these roles see it; everybody if there are none. */
  roles: readonly string[];
  /** It is a tab of the inbox, and has no place of its own beside it. */
  isTab?: boolean;
  /** `version` grows with each change of the tenant. */
  load: () => Promise<{default: Component<{version: number}>}>;
}

export const views: readonly View[] = [
  {path: '/console/decided', name: 'decided', roles: [], isTab: true, load: () => import('./decided/Decided.svelte')},
  {path: '/console/sessions', name: 'sessions', roles: [], load: () => import('./sessions/Sessions.svelte')},
  {path: '/console/commands', name: 'commands', roles: [], load: () => import('./commands/Commands.svelte')},
  {path: '/console/runners', name: 'runners', roles: [], load: () => import('./runners/Runners.svelte')},
  {path: '/console/usage', name: 'usage', roles: [], load: () => import('./usage/Usage.svelte')},
  {path: '/console/policy', name: 'policy', roles: [], load: () => import('./policy/Policy.svelte')},
  {path: '/console/audit', name: 'audit', roles: ['auditor', 'admin', 'owner'], load: () => import('./audit/Audit.svelte')},
  {path: '/console/access', name: 'access', roles: [], load: () => import('./access/Access.svelte')},
  {path: '/console/settings', name: 'settings', roles: [], load: () => import('./settings/Settings.svelte')},
];

export function viewAt(path: string): View | null {
  return views.find((view) => path === view.path || path.startsWith(`${view.path}/`)) ?? null;
}
