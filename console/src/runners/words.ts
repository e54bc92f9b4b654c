/** Sentences of the view of runners, loaded with it. */
import {words} from '../language.svelte';

const english = {
  busy: 'working',
  code: 'On the other host, once, until {0}:',
  drain: 'Drain',
  drained: 'drained: nothing new starts',
  loading: 'Loading…',
  lastSeen: 'last seen {0}',
  never: 'does not ask: held at its whole command',
  none: 'No runner is paired.',
  offline: 'offline',
  online: 'online',
  pair: 'Pair a host',
  qr: 'The command as a QR code, for the other host’s camera',
  revoke: 'Revoke',
  revokeSure: 'Revoke it: it can never connect again',
  roots: 'Directories: {0}',
  rotate: 'New token',
  rotateSure: 'Make it: the old one stops at once',
  sessions: 'open sessions: {0}',
  title: 'Runners',
  token: 'The new token, shown once. Put it into runner/token of that host’s state directory, and start its runner again:',
  undrain: 'End the drain',
  unwalled: 'without walls: {0}',
};

const korean: Record<keyof typeof english, string> = {
  busy: '작업 중',
  code: '다른 호스트에서 {0}까지 한 번:',
  drain: '비우기',
  drained: '비우는 중: 새로 시작하지 않음',
  loading: '불러오는 중…',
  lastSeen: '마지막 연결 {0}',
  never: '묻지 않음: 명령 전체를 승인해야 함',
  none: '페어링된 러너가 없습니다.',
  offline: '오프라인',
  online: '온라인',
  pair: '호스트 페어링',
  qr: '다른 호스트의 카메라로 읽을 QR 코드',
  revoke: '철회',
  revokeSure: '철회하면 다시는 연결할 수 없습니다',
  roots: '디렉터리: {0}',
  rotate: '새 토큰',
  rotateSure: '만들기: 이전 토큰은 바로 멈춥니다',
  sessions: '열린 세션: {0}',
  title: '러너',
  token: '새 토큰은 한 번만 표시됩니다. 그 호스트 상태 디렉터리의 runner/token에 넣고 러너를 다시 시작하세요:',
  undrain: '비우기 끝내기',
  unwalled: '벽 없음: {0}',
};

/** The sentence, with a value put in for {0}. */
export function say(word: keyof typeof english, value: string | number = ''): string {
  return (words.language === 'ko' ? korean : english)[word].replace('{0}', () => String(value));
}
