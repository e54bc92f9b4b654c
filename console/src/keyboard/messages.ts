/** Messages of the command palette and the list of shortcuts, loaded with them. */
import {i18n} from '../i18n.svelte';

const english = {
  allow: 'focus Allow once; Enter presses it. While the request is not fully shown: scroll on',
  approval: 'approval',
  back: 'from an approval back to the list',
  close: 'Close',
  deny: 'focus Deny; Enter presses it',
  help: 'Keyboard shortcuts',
  helpKey: 'show this list',
  jump: 'go to a view, an approval or a session',
  move: 'the next and the previous row, or waiting approval',
  nothing: 'Nothing found.',
  open: 'open the row',
  palette: 'Go to…',
  reason: 'write the reason',
  send: 'send a prompt',
  session: 'session',
  view: 'view',
};

const korean: Record<keyof typeof english, string> = {
  allow: '한 번 허용으로 이동; Enter로 결정. 다 보지 않은 내용은 먼저 읽어 내려감',
  approval: '승인',
  back: '승인에서 목록으로',
  close: '닫기',
  deny: '거부로 이동; Enter로 결정',
  help: '키',
  helpKey: '이 목록 보기',
  jump: '화면, 승인 또는 세션으로 이동',
  move: '다음과 이전 줄, 또는 기다리는 승인',
  nothing: '그런 이름이 없습니다.',
  open: '줄 열기',
  palette: '이동…',
  reason: '이유 쓰기',
  send: '프롬프트 보내기',
  session: '세션',
  view: '화면',
};

/** The shortcuts of the console, each with the message key of its effect. */
export const KEYS: readonly (readonly [string, keyof typeof english])[] = [
  ['j k', 'move'], ['o Enter', 'open'], ['a', 'allow'], ['d', 'deny'], ['r', 'reason'], ['u', 'back'], ['Ctrl+K', 'jump'],
  ['Ctrl+Enter', 'send'], ['?', 'helpKey'],
];

/** Return the message of a key in the selected language. */
export function t(key: keyof typeof english): string {
  return (i18n.language === 'ko' ? korean : english)[key];
}
