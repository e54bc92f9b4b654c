/** Sentences of the audit view, loaded with it. */
import {words} from '../language.svelte';
import type {Kind} from './log_check';

const english = {
  action: 'Action',
  actor: 'Who',
  all: 'Clear',
  approval: 'Approval',
  cannot: 'This browser cannot check Ed25519 signatures. Use a current one, or `interlock audit verify`.',
  checked: 'Verified: records {0} to {1} are complete, in order and unchanged, signed by the key below.',
  checking: 'Verifying: {0} of about {1} records…',
  command: 'Command',
  erased: 'Personal data of {0} records was erased, and the log says by whom.',
  failed: 'The log could not be verified: {0}',
  fingerprint: 'Fingerprint of the key (SHA-256)',
  fingerprintHint: 'Fingerprint that you got another way (optional)',
  forget: 'Forget it',
  filters: 'Search the log',
  from: 'From',
  honest: 'This page and the key come from the same gateway. A gateway that lies can lie here as well: compare the key’s fingerprint with one that you got another way and pin it, or run the verifier on an export.',
  insecure: 'Browsers check signatures only on localhost or over HTTPS. Open the console there.',
  keptNone: 'This browser had no checkpoint of this log. It keeps this one.',
  kept: 'The log goes on from the checkpoint that this browser kept: {0} records, {1}.',
  keyChanged: 'The gateway sends a key that is not the one you pinned. The log is verified with the pinned one.',
  loading: 'Loading…',
  more: 'Older records',
  none: 'No record matches.',
  notOne: 'It is not the fingerprint of the key that this gateway sends. Do not trust the log until you know why.',
  otherLog: 'This browser kept a checkpoint of another log: {0}. If this gateway was set up again, forget it.',
  pin: 'Pin this key',
  pinned: 'Pinned in this browser.',
  search: 'Search',
  searchOn: 'Search older records',
  session: 'Session',
  seconds: '{0} s.',
  tampered: 'The log was changed.',
  title: 'Audit log',
  to: 'To',
  unpin: 'Unpin',
  unsigned: '{0} newer records are chained and not signed yet.',
  verify: 'Verify again',
  atRecord: 'First bad record: {0}.',
};

const korean: Record<keyof typeof english, string> = {
  action: '작업',
  actor: '누가',
  all: '지우기',
  approval: '승인',
  cannot: '이 브라우저는 Ed25519 서명을 확인할 수 없습니다. 최신 브라우저나 `interlock audit verify`를 쓰세요.',
  checked: '확인됨: {0}번부터 {1}번까지의 기록이 빠짐없이 순서대로 그대로 있으며 아래 키로 서명되었습니다.',
  checking: '확인 중: 약 {1}개 가운데 {0}개…',
  command: '명령',
  erased: '기록 {0}개의 개인 정보가 지워졌으며, 누가 지웠는지 로그에 있습니다.',
  failed: '로그를 확인하지 못했습니다: {0}',
  fingerprint: '키의 지문 (SHA-256)',
  fingerprintHint: '다른 경로로 받은 지문 (선택)',
  forget: '잊기',
  filters: '로그 검색',
  from: '시작',
  honest: '이 페이지와 키는 같은 게이트웨이에서 옵니다. 거짓말하는 게이트웨이는 여기서도 속일 수 있습니다. 다른 경로로 받은 지문과 비교한 뒤 키를 고정하거나, 내보낸 로그를 검증기로 확인하세요.',
  insecure: '브라우저는 localhost나 HTTPS에서만 서명을 확인합니다. 그 주소로 여세요.',
  keptNone: '이 브라우저에는 이 로그의 체크포인트가 없었습니다. 지금 것을 보관합니다.',
  kept: '로그는 이 브라우저가 보관한 체크포인트에서 이어집니다: 기록 {0}개, {1}.',
  keyChanged: '게이트웨이가 고정한 키와 다른 키를 보냅니다. 고정한 키로 확인합니다.',
  loading: '불러오는 중…',
  more: '이전 기록',
  none: '일치하는 기록이 없습니다.',
  notOne: '이 게이트웨이가 보내는 키의 지문이 아닙니다. 이유를 알 때까지 로그를 믿지 마세요.',
  otherLog: '이 브라우저는 다른 로그의 체크포인트를 보관하고 있습니다: {0}. 게이트웨이를 다시 설치했다면 잊어도 됩니다.',
  pin: '이 키 고정',
  pinned: '이 브라우저에 고정됨.',
  search: '검색',
  searchOn: '이전 기록에서 더 찾기',
  session: '세션',
  seconds: '{0}초.',
  tampered: '로그가 변경되었습니다.',
  title: '감사 로그',
  to: '끝',
  unpin: '고정 해제',
  unsigned: '더 새로운 기록 {0}개는 이어져 있지만 아직 서명되지 않았습니다.',
  verify: '다시 확인',
  atRecord: '처음 잘못된 기록: {0}.',
};

const kinds: Record<'en' | 'ko', Record<Kind, string>> = {
  en: {
    'record changed': 'A record is not what was written.',
    'hash changed': 'The hash of a record is not the one that was written.',
    'personal data changed': 'A personal value is not the one that the record commits to.',
    'personal data missing': 'A personal value is gone, and no signed record says who erased it.',
    inserted: 'A record was put in that does not belong there.',
    removed: 'A record is missing.',
    reordered: 'Records are not in their order.',
    'cut tail': 'Records at the end are missing that were signed.',
    rewritten: 'Records were replaced: they do not add up to the signed Merkle root.',
    'bad signature': 'A checkpoint is not signed by this key.',
    'checkpoint missing': 'The log has no signed checkpoint.',
    'unsigned tail': 'More records at the end are unsigned than a gateway leaves.',
    'rolled back': 'The log is shorter than when this browser last saw it.',
    forked: 'The log is another one than this browser last saw: what it saw was replaced.',
  },
  ko: {
    'record changed': '기록이 처음 쓰인 것과 다릅니다.',
    'hash changed': '기록의 해시가 처음 쓰인 것과 다릅니다.',
    'personal data changed': '개인 정보가 기록이 확정한 값과 다릅니다.',
    'personal data missing': '개인 정보가 사라졌는데, 누가 지웠는지 서명된 기록이 없습니다.',
    inserted: '속하지 않는 기록이 끼어 있습니다.',
    removed: '기록이 빠져 있습니다.',
    reordered: '기록의 순서가 다릅니다.',
    'cut tail': '서명된 마지막 기록들이 없습니다.',
    rewritten: '기록이 바뀌었습니다: 서명된 머클 루트와 맞지 않습니다.',
    'bad signature': '체크포인트가 이 키로 서명되지 않았습니다.',
    'checkpoint missing': '로그에 서명된 체크포인트가 없습니다.',
    'unsigned tail': '끝에 서명되지 않은 기록이 게이트웨이가 남기는 것보다 많습니다.',
    'rolled back': '로그가 이 브라우저가 마지막으로 본 것보다 짧습니다.',
    forked: '이 브라우저가 마지막으로 본 로그가 아닙니다: 본 것이 바뀌었습니다.',
  },
};

/** The sentence, with values put in for {0} and {1}. */
export function say(word: keyof typeof english, ...values: (string | number)[]): string {
  const texts = words.language === 'ko' ? korean : english;
  return texts[word].replace(/\{(\d)\}/g, (_, at: string) => {
    const value = values[Number(at)] ?? '';
    return typeof value === 'number' ? value.toLocaleString(words.language) : value;
  });
}

export function sentenceOf(kind: Kind): string {
  return kinds[words.language][kind];
}
