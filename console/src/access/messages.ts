/** Messages of the view of keys and devices, loaded with it. */
import {i18n} from '../i18n.svelte';

const english = {
  browsers: 'Browsers that are logged in',
  copy: 'This key is shown only once:',
  created: 'created {0}',
  days: 'Valid for (days)',
  end: 'End',
  endSure: 'End this login',
  expires: 'until {0}',
  forever: 'never expires',
  here: 'this browser',
  keys: 'Keys',
  label: 'Name',
  loading: 'Loading…',
  make: 'Create a key',
  never: 'never used',
  none: 'None.',
  person: 'User',
  push: 'Browsers that are notified',
  revoke: 'Revoke',
  revoked: 'revoked',
  revokeSure: 'Revoke it: it stops working at once',
  role: 'Role',
  showRevoked: 'Show revoked keys',
  title: 'Keys & devices',
  used: 'last used {0}',
};

const korean: Record<keyof typeof english, string> = {
  browsers: '로그인한 브라우저',
  copy: '지금 한 번만 표시됩니다:',
  created: '만든 때 {0}',
  days: '유효 기간(일)',
  end: '끝내기',
  endSure: '이 로그인 끝내기',
  expires: '{0}까지',
  forever: '만료 없음',
  here: '이 브라우저',
  keys: '키',
  label: '이름',
  loading: '불러오는 중…',
  make: '키 만들기',
  never: '사용한 적 없음',
  none: '없음.',
  person: '누구의 키',
  push: '알림을 받는 브라우저',
  revoke: '철회',
  revoked: '철회됨',
  revokeSure: '철회하면 바로 멈춥니다',
  role: '역할',
  showRevoked: '철회된 키 보기',
  title: '키와 기기',
  used: '마지막 사용 {0}',
};

/** Return the message of a key, with a value inserted for {0}. */
export function t(key: keyof typeof english, value = ''): string {
  return (i18n.language === 'ko' ? korean : english)[key].replace('{0}', () => value);
}
