/** Messages of the list of decided approvals, loaded with it. */
import {i18n} from '../i18n.svelte';

const english = {
  kept: 'rule saved',
  loading: 'Loading…',
  more: 'Show more',
  none: 'No decision matches.',
  search: 'Search action, agent, person',
  searchOn: 'No match so far. Continue the search',
};

const korean: Record<keyof typeof english, string> = {
  kept: '규칙이 저장됨',
  loading: '불러오는 중…',
  more: '더 보기',
  none: '그런 결정이 없습니다.',
  search: '행위, 에이전트, 사람 검색',
  searchOn: '아직 없습니다. 계속 검색',
};

/** Return the message of a key in the selected language. */
export function t(key: keyof typeof english): string {
  return (i18n.language === 'ko' ? korean : english)[key];
}
