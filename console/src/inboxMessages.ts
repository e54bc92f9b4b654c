/** Messages of an empty inbox, loaded with it. */
import {i18n} from './i18n.svelte';

const english = {
  empty: 'No pending approvals.',
  hint: 'An approval appears here when an agent asks for one.',
};

const korean: Record<keyof typeof english, string> = {
  empty: '기다리는 승인이 없습니다.',
  hint: '에이전트가 승인을 요청하면 여기에 나타납니다.',
};

/** Return the message of a key in the selected language. */
export function t(key: keyof typeof english): string {
  return (i18n.language === 'ko' ? korean : english)[key];
}
