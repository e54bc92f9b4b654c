/** What holds an agent, in one line. */
import type {components} from '../api.generated';
import {words} from '../language.svelte';
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

const korean: Record<keyof typeof english, string> = {
  all: '네트워크 열림',
  box: '상자 안',
  elsewhere: '목록에 있는 경로만 쓰기 가능',
  hidden: '작업 공간 숨김',
  hosts: '{0} 외에는 네트워크 없음',
  model: '모델 외에는 네트워크 없음',
  none: '네트워크 없음',
  noWalls: '벽 없음: Interlock의 키를 읽을 수 있음',
  open: '쓰기 제한 없음',
  others: '다른 곳의 쓰기는 제한 없음',
  programs: '시작하는 프로그램마다 승인 대기',
  read: '작업 공간 읽기 전용',
  sockets: '다른 프로그램의 소켓 숨김',
  socketsBut: '{0} 외에는 다른 프로그램의 소켓 숨김',
  staged: '쓰기는 스테이징됨',
  stagedPart: '작업 공간의 쓰기만 스테이징됨',
  walls: '벽 안',
  writes: '작업 공간과 목록에 있는 경로에만 쓰기',
};

const SPEAKERS = ['ssh-agent', 'gpg-agent', 'docker', 'dbus', 'tmux'] as const;
const MAX_HOSTS = 4;
const MAX_HOST_CHARS = 80;

/** Describe a box as the gateway's cards do. */
export function phrase(box: Box): string {
  if (box.walls === 'none') return say('noWalls');
  const network = box.network ?? 'all';
  const held = [typeof network === 'string' ? say(network) : say('hosts', hostsOf(network)), writes(box)];
  if (box.programs) held.push(say('programs'));
  const hidden = box.no_sockets ?? [];
  if (hidden.length > 0) {
    const left = SPEAKERS.filter((one) => !hidden.includes(one));
    held.push(left.length > 0 ? say('socketsBut', left.join(', ')) : say('sockets'));
  }
  const isClosed = box.limited && network !== 'all';
  return `${say(isClosed ? 'box' : 'walls')} (${box.walls}): ${held.join('; ')}`;
}

function hostsOf(hosts: readonly string[]): string {
  const shown = hosts.slice(0, MAX_HOSTS).map((host) => visible(host.slice(0, MAX_HOST_CHARS)));
  return [...shown, ...(hosts.length > MAX_HOSTS ? [`+ ${hosts.length - MAX_HOSTS}`] : [])].join(', ');
}

function writes(box: Box): string {
  const {access = 'rw', limited = false, staged = false} = box;
  if (access !== 'rw') return `${say(access === 'ro' ? 'read' : 'hidden')}, ${say(limited ? 'elsewhere' : 'others')}`;
  if (staged) return say(limited ? 'staged' : 'stagedPart');
  return say(limited ? 'writes' : 'open');
}

/** The words, with a value put in for {0}. */
function say(word: keyof typeof english, value = ''): string {
  return (words.language === 'ko' ? korean : english)[word].replace('{0}', () => value);
}
