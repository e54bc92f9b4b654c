/** Sentences of the settings, loaded with them. */
import {words} from '../language.svelte';

const english = {
  browser: 'Of this browser',
  channels: 'Channels and webhooks',
  dark: 'dark',
  dead: '{0} undelivered',
  gateway: 'Gateway',
  jobs: 'Scheduled prompts',
  language: 'Language',
  light: 'light',
  missed: 'missed {0}',
  next: 'next {0}',
  noChannels: 'No channel is set. The config sets them: [[webhooks]].',
  noJobs: 'Nothing is scheduled.',
  off: 'off',
  run: 'Run now',
  sent: 'The test was sent.',
  system: 'as the system',
  test: 'Send a test',
  theme: 'Colours',
  title: 'Settings',
  unsigned: 'The audit log is not signed: {0}',
  version: 'Version {0}',
  waiting: '{0} waiting',
};

const korean: Record<keyof typeof english, string> = {
  browser: '이 브라우저',
  channels: '채널과 웹훅',
  dark: '어둡게',
  dead: '전달 실패 {0}',
  gateway: '게이트웨이',
  jobs: '예약된 프롬프트',
  language: '언어',
  light: '밝게',
  missed: '놓침 {0}',
  next: '다음 {0}',
  noChannels: '설정된 채널이 없습니다. 설정 파일의 [[webhooks]]로 정합니다.',
  noJobs: '예약된 것이 없습니다.',
  off: '꺼짐',
  run: '지금 실행',
  sent: '테스트를 보냈습니다.',
  system: '시스템 설정대로',
  test: '테스트 보내기',
  theme: '색',
  title: '설정',
  unsigned: '감사 로그가 서명되지 않았습니다: {0}',
  version: '버전 {0}',
  waiting: '대기 {0}',
};

/** The sentence, with a value put in for {0}. */
export function say(word: keyof typeof english, value: string | number = ''): string {
  return (words.language === 'ko' ? korean : english)[word].replace('{0}', () => String(value));
}
