/** Messages about notices on this device. */
import {i18n} from '../i18n.svelte';

const english = {
  title: 'Notices on this device',
  on: 'Notify me on this device',
  off: 'Turn off',
  test: 'Send a test',
  isOn: 'This device is notified of each pending approval.',
  hint: 'A notice opens the approval and never decides it. While notices are on, this device stays logged in when the page is closed, until 12 hours pass without use.',
  sent: 'The test was sent. It arrives in a moment.',
  blocked: 'This browser blocks notices of this page. Allow them in the browser settings for this page, then reload it.',
  install: 'This browser does not support notices here. They need HTTPS or localhost; on an iPhone or iPad, add the page to the home screen first.',
  unconfigured: 'This gateway does not notify devices. Its operator can turn that on: `contact` under [push] in its config.',
  failed: 'The action failed:',
} as const;

const korean: Record<keyof typeof english, string> = {
  title: '이 기기의 알림',
  on: '이 기기에서 알림 받기',
  off: '끄기',
  test: '시험 알림 보내기',
  isOn: '기다리는 승인이 생길 때마다 이 기기에 알립니다.',
  hint: '알림은 승인을 열기만 하고 대신 답하지 않습니다. 알림을 켜 두면 페이지를 닫아도 12시간 동안 쓰지 않을 때까지 로그인이 유지됩니다.',
  sent: '시험 알림을 보냈습니다. 곧 도착합니다.',
  blocked: '이 브라우저가 이 페이지의 알림을 막고 있습니다. 페이지 설정에서 허용한 뒤 다시 불러오세요.',
  install: '이 브라우저는 여기서 알림을 받을 수 없습니다. HTTPS나 localhost가 필요하며, iPhone과 iPad에서는 먼저 홈 화면에 추가하세요.',
  unconfigured: '이 게이트웨이는 기기에 알리지 않습니다. 운영자가 설정의 [push] 아래 `contact`로 켤 수 있습니다.',
  failed: '작업하지 못했습니다:',
};

/** Return the message of a key in the selected language. */
export function t(key: keyof typeof english): string {
  return (i18n.language === 'en' ? english : korean)[key];
}
