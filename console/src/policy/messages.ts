/** Messages of the policy view, loaded with it. */
import {i18n} from '../i18n.svelte';

const english = {
  agent: 'Agent',
  allow: 'Allow',
  anything: 'anything',
  ask: 'Ask',
  askMore: 'Ask: {0} people must allow it',
  byRule: '· rule “{0}”',
  command: 'Command line',
  config: 'from the config',
  deny: 'Deny',
  effect: 'Effect',
  fits: 'matches',
  inForce: 'in force',
  loading: 'Loading…',
  missed: 'does not match: {0}',
  more: 'There are more.',
  nothing: 'No remembered rules. An approval with “always” adds one.',
  onlyChanged: 'Only calls whose decision would change',
  order: 'The first matching rule decides. If none matches, a person is asked.',
  path: 'Path',
  pattern: 'Command (regular expression)',
  remembered: 'Remembered rules',
  rememberedSource: 'remembered',
  replay: 'Replay on recorded calls',
  replayHint: 'Up to 200 calls of the newest 20 sessions: what was decided, and what would be if this rule came first. Without a rule: what the rules in force would decide. Nothing is executed or changed.',
  replaySend: 'Replay',
  replayed: 'Decisions that would change: {0}. Sessions read: {1}.',
  revoke: 'Revoke',
  revokeSure: 'Revoke it: such calls need an approval again',
  revoked: 'revoked by {0}',
  rules: 'Rules in force, in order',
  said: 'from {0}, {1}',
  shipped: 'ships with Interlock',
  title: 'Policy',
  tool: 'Tool',
  tryHint: 'The call is not executed.',
  tryIt: 'Try a call',
  trySend: 'Which rule decides?',
  unclear: 'No allow rule about its input covers this call: {0}.',
  unknown: 'not on record: {0}',
  workspace: 'Directory',
};

const korean: Record<keyof typeof english, string> = {
  agent: '에이전트',
  allow: '허용',
  anything: '모든 것',
  ask: '물어보기',
  askMore: '물어보기: {0}명이 승인해야 함',
  byRule: '· 규칙 “{0}”',
  command: '명령줄',
  config: '설정에서',
  deny: '거부',
  effect: '규칙의 결정',
  fits: '맞음',
  inForce: '적용 중',
  loading: '불러오는 중…',
  missed: '맞지 않음: {0}',
  more: '이보다 더 있습니다.',
  nothing: '기억된 규칙이 없습니다. 승인할 때 “항상”을 고르면 규칙이 생깁니다.',
  onlyChanged: '결정이 달라지는 호출만',
  order: '처음 맞는 규칙이 결정합니다. 맞는 규칙이 없으면 물어봅니다.',
  path: '경로',
  pattern: '명령 (정규 표현식)',
  remembered: '기억된 규칙',
  rememberedSource: '기억됨',
  replay: '기록된 호출에 적용해 보기',
  replayHint: '최근 세션 20개의 호출을 최대 200개까지: 실제 결정과, 이 규칙이 맨 앞에 있을 때의 결정. 규칙을 비우면 적용 중인 규칙의 결정을 보여 줍니다. 아무것도 실행되거나 바뀌지 않습니다.',
  replaySend: '적용해 보기',
  replayed: '달라진 결정: {0}. 읽은 세션: {1}.',
  revoke: '철회',
  revokeSure: '철회하면 다시 물어봅니다',
  revoked: '{0} 철회함',
  rules: '적용 중인 규칙 (순서대로)',
  said: '{0}, {1}',
  shipped: 'Interlock 기본 규칙',
  title: '정책',
  tool: '도구',
  tryHint: '아무것도 실행되지 않습니다.',
  tryIt: '호출 시험',
  trySend: '어느 규칙이 결정하나요?',
  unclear: '입력에 관한 어떤 허용 규칙도 이 호출에 적용되지 않습니다: {0}.',
  unknown: '기록에 없음: {0}',
  workspace: '디렉터리',
};

export type PolicyWord = keyof typeof english;

/** Return the message of a key, with values inserted for {0} and {1}. */
export function t(key: PolicyWord, ...values: (string | number)[]): string {
  return (i18n.language === 'ko' ? korean : english)[key]
    .replace(/\{(\d)\}/g, (_, at: string) => String(values[Number(at)] ?? ''));
}

/** Return the message of a rule's effect; an unknown effect is returned unchanged. */
export function effectOf(effect: string): string {
  return effect === 'allow' || effect === 'deny' || effect === 'ask' ? t(effect) : effect;
}

/** Return the message of a rule's source. */
export function sourceOf(source: string): string {
  return t(source === 'shipped' ? 'shipped' : source === 'remembered' ? 'rememberedSource' : 'config');
}
