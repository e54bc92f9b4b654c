/** One-line description of an agent's box. */
import type {components} from '../api.generated';
import {i18n} from '../i18n.svelte';
import {visible} from '../visible';

export type Box = components['schemas']['Box'];

const english = {
  all: 'open network',
  box: 'in a box',
  elsewhere: 'only listed paths writable',
  hidden: 'workspace hidden',
  hosts: 'no network but {0}',
  model: 'no network but its model',
  none: 'no network',
  noWalls: "no walls: it can read Interlock's own keys",
  open: 'writes are not held',
  others: 'writes elsewhere are not held',
  programs: 'each program that it starts is held',
  read: 'workspace read-only',
  sockets: "other programs' sockets hidden",
  socketsBut: "other programs' sockets hidden but for {0}",
  staged: 'writes are staged',
  stagedPart: 'writes in the workspace are staged, others are not held',
  walls: 'behind walls',
  writes: 'writes only in its workspace and listed paths',
};

export type BoxKey = keyof typeof english;

const SPEAKERS = ['ssh-agent', 'gpg-agent', 'docker', 'dbus', 'tmux'] as const;
const MAX_HOSTS = 4;
const MAX_HOST_CHARS = 80;

/** Describe a box as the gateway's cards do. */
export function phrase(box: Box): string {
  if (box.walls === 'none') return t('noWalls');
  const network = box.network ?? 'all';
  const held = [typeof network === 'string' ? t(network) : t('hosts', hostsOf(network)), writes(box)];
  if (box.programs) held.push(t('programs'));
  const hidden = box.no_sockets ?? [];
  if (hidden.length > 0) {
    const left = SPEAKERS.filter((one) => !hidden.includes(one));
    held.push(left.length > 0 ? t('socketsBut', left.join(', ')) : t('sockets'));
  }
  const isClosed = box.limited && network !== 'all';
  return `${t(isClosed ? 'box' : 'walls')} (${box.walls}): ${held.join('; ')}`;
}

function hostsOf(hosts: readonly string[]): string {
  const shown = hosts.slice(0, MAX_HOSTS).map((host) => visible(host.slice(0, MAX_HOST_CHARS)));
  return [...shown, ...(hosts.length > MAX_HOSTS ? [`+ ${hosts.length - MAX_HOSTS}`] : [])].join(', ');
}

function writes(box: Box): string {
  const {access = 'rw', limited = false, staged = false} = box;
  if (access !== 'rw') return `${t(access === 'ro' ? 'read' : 'hidden')}, ${t(limited ? 'elsewhere' : 'others')}`;
  if (staged) return t(limited ? 'staged' : 'stagedPart');
  return t(limited ? 'writes' : 'open');
}

/** Return the message of a key, with a value inserted for {0}. */
function t(key: BoxKey, value = ''): string {
  return i18n.of('box', english)[key].replace('{0}', () => value);
}
