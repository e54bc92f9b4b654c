/** Sentences of the sessions' views, loaded with them. */
import {words} from '../language.svelte';

const english = {
  all: 'All states',
  answer: 'Open the approval',
  archive: 'Archive',
  back: 'Sessions',
  cost: 'estimated',
  denied: 'denied',
  diff: 'Change',
  earlier: 'Show earlier',
  empty: 'There is no such session.',
  file: 'File',
  idle: 'Idle and closed',
  input: 'Input',
  jump: 'Jump to the newest',
  loading: 'Loading…',
  lost: '{0} frames lost',
  more: 'Show more',
  notSent: 'Not sent: {0}',
  output: 'Output',
  prompt: 'Prompt',
  search: 'Search title, agent, directory',
  send: 'Send',
  sent: 'Sent. It waits for an approval.',
  sessions: 'Sessions',
  state: 'State',
  stop: 'Stop',
  stopped: 'The turn ended: {0}',
  summarized: 'The conversation was compacted: {0} tokens became {1}.',
  thinking: 'Thinking',
  tokens: '{0} tokens',
  truncated: 'The output is longer than what is kept.',
  waits: 'Waits for an answer',
  waiting: 'Waiting for you',
  working: 'Working',
  write: 'Write to the agent',
};

const korean: Record<keyof typeof english, string> = {
  all: '모든 상태',
  answer: '승인 열기',
  archive: '보관',
  back: '세션',
  cost: '추정',
  denied: '거부됨',
  diff: '변경',
  earlier: '이전 내용 보기',
  empty: '해당하는 세션이 없습니다.',
  file: '파일',
  idle: '유휴 및 종료',
  input: '입력',
  jump: '최신으로 이동',
  loading: '불러오는 중…',
  lost: '프레임 {0}개 유실',
  more: '더 보기',
  notSent: '보내지 못함: {0}',
  output: '출력',
  prompt: '프롬프트',
  search: '제목, 에이전트, 디렉터리 검색',
  send: '보내기',
  sent: '보냈습니다. 승인을 기다립니다.',
  sessions: '세션',
  state: '상태',
  stop: '중지',
  stopped: '턴이 끝났습니다: {0}',
  summarized: '대화가 압축되었습니다: 토큰 {0} → {1}.',
  thinking: '생각',
  tokens: '토큰 {0}',
  truncated: '보관된 것보다 출력이 깁니다.',
  waits: '응답을 기다립니다',
  waiting: '당신을 기다립니다',
  working: '작업 중',
  write: '에이전트에게 쓰기',
};

/** The sentence, with values put in for {0} and {1}. */
export function say(word: keyof typeof english, ...values: (string | number)[]): string {
  return (words.language === 'ko' ? korean : english)[word].replace(/\{(\d)\}/g, (_, at: string) => {
    const value = values[Number(at)] ?? '';
    return typeof value === 'number' ? value.toLocaleString(words.language) : value;
  });
}
