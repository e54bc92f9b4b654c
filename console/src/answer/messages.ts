/** Messages of the options of a vote, loaded with them. */
import {i18n} from '../i18n.svelte';

const english = {
  allowAnd: 'Allow and save this rule',
  allowChanged: 'Allow the changed input once',
  below: 'this tool below this directory',
  change: 'Change the input',
  changeHint: 'Only this input will be allowed.',
  denyAnd: 'Deny and save this rule',
  described: 'every call of this kind in this session, although the agent does not report its input',
  exact: 'exactly this',
  future: 'Rule for future calls',
  grant: 'allow',
  deny: 'deny',
  input: 'Input, as JSON',
  kept: 'This rule will be saved, until someone revokes it:',
  loading: 'Loading…',
  noChange: 'This agent does not accept a changed input.',
  notObject: 'This is not a JSON object.',
  program: 'this program and first word',
  rule: 'in every session',
  session: 'in this session',
  unread: 'You can allow it once all of it was shown.',
  where: 'Scope',
  what: 'Effect',
  which: 'Calls',
};

type MessageKey = keyof typeof english;

const korean: Record<MessageKey, string> = {
  allowAnd: '허용하고 이 규칙 저장',
  allowChanged: '바꾼 입력을 한 번 허용',
  below: '이 디렉터리 아래의 이 도구',
  change: '입력 바꾸기',
  changeHint: '이 입력만 허용됩니다.',
  denyAnd: '거부하고 이 규칙 저장',
  described: '에이전트가 무엇을 하는지 보내지 않더라도 이 세션의 이런 호출 모두',
  exact: '정확히 이것',
  future: '앞으로',
  grant: '허용',
  deny: '거부',
  input: '입력 (JSON)',
  kept: '누군가 철회할 때까지 이 규칙이 저장됩니다:',
  loading: '불러오는 중…',
  noChange: '이 에이전트는 바뀐 입력을 받지 않습니다.',
  notObject: 'JSON 객체가 아닙니다.',
  program: '이 프로그램과 첫 단어',
  rule: '모든 세션에서',
  session: '이 세션에서',
  unread: '모두 표시된 뒤에 허용할 수 있습니다.',
  where: '어디에서',
  what: '무엇을',
  which: '어떤 호출',
};

/** Return the message of a key in the selected language. */
export function t(key: MessageKey): string {
  return (i18n.language === 'ko' ? korean : english)[key];
}
