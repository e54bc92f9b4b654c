/** Messages about passkeys and signing keys, loaded with the components that show them. */
import {i18n} from '../i18n.svelte';

const english = {
  address: 'Passkeys do not work at an IP address. Open the console at localhost or at its HTTPS host name.',
  again: 'This device already has a passkey for you here.',
  any: 'Only signed votes count. Sign with your passkey here: the browser asks for a finger, a face or a PIN. A key file signs in a terminal:',
  approvers: 'Only people who may vote can register passkeys.',
  bound: 'for {0}',
  created: 'created {0}',
  failed: 'The browser could not create the passkey or signature: {0}',
  here: 'this page',
  kind: 'The browser does not return the public key of this passkey. Use another device.',
  label: 'Name of the passkey',
  loading: 'Loading…',
  made: 'Registered. Votes with it count from now on.',
  make: 'Register a passkey',
  mineNone: 'You have no passkey for this page.',
  mustPass: 'Only votes with a passkey count: the browser asks for a finger, a face or a PIN, and the passkey signs this request, its digest and your decision.',
  none: 'None.',
  pass: 'passkey',
  proves: 'A vote with a passkey shows that the device or vault that holds it was unlocked by its person, and was asked for exactly this request and decision. It does not show who created the passkey: a program with your API key can register one of its own, which then appears in this list and in the audit log. The browser asks twice: to create it, and to confirm its owner.',
  refused: 'The request was denied or timed out. Try again.',
  register: 'Register one under Keys & devices',
  revoke: 'Revoke',
  revoked: 'revoked',
  revokeSure: 'Revoke it: votes with it no longer count',
  signing: 'Passkeys and signing keys',
  unknown: 'This browser does not support passkeys.',
  file: 'key file',
  which: 'Passkey',
};

const korean: Record<keyof typeof english, string> = {
  address: '숫자로 된 주소의 페이지에서는 패스키를 쓸 수 없습니다. localhost 또는 https 이름으로 여세요.',
  again: '이 기기에는 이미 패스키가 있습니다.',
  any: '서명된 투표만 인정됩니다. 여기서 패스키로 서명하세요. 브라우저가 지문, 얼굴 또는 PIN을 요청합니다. 키 파일로는 터미널에서 서명합니다:',
  approvers: '투표할 수 있는 사람만 패스키를 등록합니다.',
  bound: '{0}용',
  created: '만든 때 {0}',
  failed: '브라우저가 패스키나 서명을 만들지 못했습니다: {0}',
  here: '이 페이지',
  kind: '브라우저가 이 패스키의 공개 키를 주지 않습니다. 다른 기기를 사용하세요.',
  label: '패스키 이름',
  loading: '불러오는 중…',
  made: '등록되었습니다. 이제 이 패스키의 투표가 인정됩니다.',
  make: '패스키 등록',
  mineNone: '이 페이지에 등록된 패스키가 없습니다.',
  mustPass: '패스키로 한 투표만 인정됩니다. 브라우저가 지문, 얼굴 또는 PIN을 요청하며, 이 요청과 다이제스트와 결정에 서명합니다.',
  none: '없음.',
  pass: '패스키',
  proves: '패스키 투표는 패스키가 든 기기나 보관함을 그 사람이 잠금 해제했고, 바로 이 요청과 결정에 대해 요청받았음을 보여 줍니다. 누가 패스키를 만들었는지는 보여 주지 않습니다. 당신의 API 키를 가진 프로그램은 자기 패스키를 등록할 수 있으며, 이 목록과 감사 기록에 남습니다. 브라우저는 두 번 묻습니다. 만들 때와 누구의 것인지 확인할 때입니다.',
  refused: '브라우저에서 허용되지 않았거나 시간 안에 응답이 없었습니다. 다시 시도하세요.',
  register: '키와 기기에서 등록하기',
  revoke: '철회',
  revoked: '철회됨',
  revokeSure: '철회하면 이 패스키의 투표는 인정되지 않습니다',
  signing: '패스키와 서명 키',
  unknown: '이 브라우저는 패스키를 지원하지 않습니다.',
  file: '키 파일',
  which: '패스키',
};

/** Return the message of a key, with a value inserted for {0}. */
export function t(key: keyof typeof english, value = ''): string {
  return (i18n.language === 'ko' ? korean : english)[key].replace('{0}', () => value);
}
