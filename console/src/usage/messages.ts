/** Messages of the usage view, loaded with it. */
import {i18n} from '../i18n.svelte';

const english = {
  agent: 'Agent',
  apart: 'By',
  budgets: 'Budgets today',
  cached: 'From cache',
  cost: 'Cost (estimate)',
  csv: 'Download as CSV',
  day: 'Day',
  estimate: 'Tokens and cost are what agents report: an estimate, not a bill. Days are in UTC.',
  estimated: '{0} turns ended before their agent reported usage: their figures are too low.',
  from: 'From',
  input: 'Tokens in',
  left: '{0} of {1} USD used, {2} left',
  leftOut: '{0} more rows are not shown. Choose fewer days.',
  loading: 'Loading…',
  model: 'Model',
  none: 'No usage in this period.',
  noBudgets: 'No budget is configured: see [[budgets]] in the config.',
  output: 'Tokens out',
  person: 'Person',
  perTurn: 'at most {0} tokens per turn',
  session: 'Session',
  tenant: 'everything',
  title: 'Usage',
  to: 'To',
  total: 'Total',
  turns: 'Turns',
};

export type MessageKey = keyof typeof english;

const korean: Record<MessageKey, string> = {
  agent: '에이전트',
  apart: '구분',
  budgets: '오늘의 예산',
  cached: '캐시에서',
  cost: '비용 (추정)',
  csv: 'CSV로 내려받기',
  day: '날짜',
  estimate: '토큰과 비용은 에이전트가 보고한 추정치이며 청구서가 아닙니다. 날짜는 UTC 기준입니다.',
  estimated: '턴 {0}개는 에이전트가 보고하기 전에 끝나 수치가 실제보다 낮습니다.',
  from: '시작일',
  input: '입력 토큰',
  left: '{1} USD 중 {0} 사용, {2} 남음',
  leftOut: '{0}줄이 더 있습니다. 기간을 줄이세요.',
  loading: '불러오는 중…',
  model: '모델',
  none: '이 기간에는 사용량이 없습니다.',
  noBudgets: '설정된 예산이 없습니다. 설정 파일의 [[budgets]]로 정합니다.',
  output: '출력 토큰',
  person: '사람',
  perTurn: '턴마다 최대 {0} 토큰',
  session: '세션',
  tenant: '전체',
  title: '사용량',
  to: '종료일',
  total: '합계',
  turns: '턴',
};

/** Return the message of a key, with values inserted for {0}, {1} and {2}. */
export function t(key: MessageKey, ...values: (string | number)[]): string {
  return (i18n.language === 'ko' ? korean : english)[key].replace(/\{(\d)\}/g, (_, at: string) => String(values[Number(at)] ?? ''));
}
