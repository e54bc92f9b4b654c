/** Risky words of a request, as a reading aid and not as a check: a request without them can do as much harm, and one with
 * them can be intended. */
import {i18n} from '../i18n.svelte';
import type {Part} from '../request';

const english = {
  deletes: 'deletes',
  elsewhere: 'Also in a terminal',
  fetches: 'runs downloaded or decoded code',
  look: 'Look twice:',
  more: 'and {0} more',
  onlyLook: 'can view, but not vote',
  posted: 'Also in chats',
  publishes: 'changes what others use',
  rewrites: 'rewrites history or skips checks',
  rights: 'changes permissions',
  role: 'Your role',
  secrets: 'refers to secrets',
  sentTo: 'sent to {0}',
  system: 'changes the system',
};

export type RiskKey = keyof typeof english;

/** Return the message of a key, with a value inserted for {0}. */
export function t(key: RiskKey, value: string | number = ''): string {
  return i18n.of('beside', english)[key].replace('{0}', () => String(value));
}

type Kind = 'deletes' | 'fetches' | 'publishes' | 'rewrites' | 'rights' | 'secrets' | 'system';

/** Each match is limited to a few hundred characters, because agents choose the text. */
const RISKS: readonly (readonly [Kind, RegExp])[] = [
  ['deletes', /\b(?:rm\s{1,9}(?:-[\w-]{1,40}\s{1,9}){0,5}(?:-\w{0,9}[rRf]\w{0,9}|--recursive|--force)|shred|mkfs(?:\.\w+)?|wipefs|dd\s[^\n]{0,200}?\bof=|find\s[^\n]{0,200}?\s-delete|git\s+clean\s+-\w{0,9}f)/g],
  ['deletes', /\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from)\b/gi],
  ['fetches', /\b(?:curl|wget)\b[^\n|]{0,300}\|\s{0,9}(?:sudo\s+)?(?:(?:ba|z|da|k)?sh|python3?|node|perl|ruby)\b/g],
  ['fetches', /\bbase64\s+(?:-d|-D|--decode)\b[^\n|]{0,200}\|\s{0,9}(?:sudo\s+)?(?:ba|z|da)?sh\b|\beval\s{1,9}["'$`(]/g],
  ['rights', /\b(?:sudo|doas|setcap|visudo)\b|\bsu\s+-|\bchmod\s{1,9}(?:-\w+\s+)?(?:[0-7]?777|[ugoa]{0,4}\+\w{0,3}s)|\bchown\s+-\w{0,9}R/g],
  ['rewrites', /\bgit\s+push\b[^\n;&|]{0,200}?\s(?:--force(?:-with-lease)?|-f)\b|\bgit\s+(?:reset\s+--hard|filter-branch|filter-repo)\b|\s--no-verify\b/g],
  ['publishes', /\b(?:npm\s+publish|twine\s+upload|cargo\s+publish|docker\s+push|gh\s+release\s+create|terraform\s+(?:apply|destroy)|kubectl\s+(?:apply|delete|drain)|helm\s+(?:upgrade|uninstall))\b/g],
  ['secrets', /(?:\.ssh\/|\.gnupg\/|\.aws\/|\.kube\/config|\.netrc\b|\.git-credentials\b|\bid_(?:rsa|ed25519|ecdsa)\b|\/etc\/shadow\b|\bowner\.key\b|(?:^|[\s"'=/])\.env(?:\.\w+)?\b)/gm],
  ['system', /\b(?:shutdown|reboot|crontab|iptables|nft|systemctl\s+(?:stop|disable|mask|enable|start|restart)|launchctl|kill\s+-9|killall|pkill)\b|(?:>|\btee\b[^\n]{0,80}?)\s{0,9}\/(?:etc|dev\/(?:sd|nvme|disk))/g],
];

/** Only the beginning of a longer request is searched. */
const SEARCHED_CHARS = 200_000;
const SHOWN = 6;
const WORD_CHARS = 60;

export interface Risk {
  kind: Kind;
  word: string;
}

function text(part: Part): string {
  return part.lines === undefined ? part.text
    : part.lines.rows.filter((row) => row.kind === 'added' || row.kind === 'note').map((row) => row.text).join('\n');
}

/** Return the risky words of a request, each once and verbatim, and the number of further ones. */
export function risksIn(parts: readonly Part[]): {named: Risk[]; more: number} {
  const searched = parts.map(text).join('\n').slice(0, SEARCHED_CHARS);
  const found = new Map<string, Risk>();
  for (const [kind, pattern] of RISKS) {
    for (const [word] of searched.matchAll(pattern)) {
      const short = word.trim();
      found.set(short, {kind, word: short.length > WORD_CHARS ? `${short.slice(0, WORD_CHARS)}…` : short});
    }
  }
  return {named: [...found.values()].slice(0, SHOWN), more: Math.max(found.size - SHOWN, 0)};
}
