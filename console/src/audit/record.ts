/** Parses one line of an exported audit log, which has only one valid form. */
import {hex, hmac, leafHash, unhex, utf8, type Bytes} from './bytes';
import {canonical, isPlain} from './canonical';

export interface AuditRecord {
  id: string;
  tenant_id: string;
  seq: number;
  prev: string;
  at: string;
  who: {id: string; role: string};
  action: string;
  meta: Record<string, unknown>;
  command_id?: string;
  session_id?: string;
  approval_id?: string;
  personal?: Record<string, string>;
}

/** A parsed line. `hash` is the hash that the line states, `digest` the hash of its bytes. */
export interface Line {
  seq: number;
  hash: string;
  record: AuditRecord;
  digest: Bytes;
  /** Every personal value that is present matches the record's commitment. */
  isPersonalValid: boolean;
  /** A personal value that the record commits to is missing. */
  isPersonalErased: boolean;
}

const REQUIRED = ['id', 'tenant_id', 'seq', 'prev', 'at', 'who', 'action', 'meta'];
const REQUIRED_STRINGS = ['id', 'tenant_id', 'prev', 'at', 'action'];
const OPTIONAL_STRINGS = ['command_id', 'session_id', 'approval_id'];
const LINE_PREFIX = /^\{"seq":([0-9]{1,16}),"hash":"([^"]*)",/;
const RECORD = '"record":';
const PERSONAL = '"personal":';
const SALT = /^[0-9a-f]{64}$/;
const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

/** Parse the line of a record, with its newline; null if it is not in canonical form. */
export function readLine(bytes: Uint8Array): Line | null {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return null;
  }
  const prefix = LINE_PREFIX.exec(text);
  const at = text.indexOf(RECORD);
  if (prefix?.[1] === undefined || prefix[2] === undefined || at < 0 || !text.endsWith('}\n')) return null;
  const raw = text.slice(at + RECORD.length, -2);
  const record = parseCanonical(raw);
  const personal = parsePersonal(text.slice(prefix[0].length, at));
  const seq = Number(prefix[1]);
  if (!isRecord(record) || personal === null || String(seq) !== prefix[1]) return null;
  const commitments = record.personal ?? {};
  const isPersonalValid = Object.entries(personal).every(([name, [salt, value]]) =>
    SALT.test(salt) && hex(hmac(unhex(salt), utf8(`${name}\0${value}`))) === commitments[name]);
  return {
    seq, hash: prefix[2], record, digest: leafHash(text.length === bytes.length ? bytes.subarray(at + RECORD.length, -2) : utf8(raw)), isPersonalValid,
    isPersonalErased: Object.keys(commitments).some((name) => !Object.hasOwn(personal, name)),
  };
}

/** Return the sequence number at the start of a line, whether or not the rest is valid. */
export function numberOf(bytes: Uint8Array): number | null {
  const found = /^\{"seq":([0-9]{1,16}),/.exec(String.fromCharCode(...bytes.subarray(0, 32)));
  return found === null ? null : Number(found[1]);
}

/** Parse canonical JSON; undefined for any other text. */
function parseCanonical(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return canonical(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Parse the personal values between the prefix of a line and its record; null if that part is invalid. */
function parsePersonal(between: string): Record<string, [string, string]> | null {
  if (between === '') return {};
  if (!between.startsWith(PERSONAL) || !between.endsWith(',')) return null;
  const value = parseCanonical(between.slice(PERSONAL.length, -1));
  if (!isObject(value)) return null;
  const pairs = Object.values(value);
  return pairs.length > 0 && pairs.every((pair) =>
    Array.isArray(pair) && pair.length === 2 && pair.every((one) => typeof one === 'string' && isPlain(one)))
    ? value as Record<string, [string, string]> : null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isRecord(value: unknown): value is AuditRecord {
  if (!isObject(value)) return false;
  const names = Object.keys(value);
  const {seq, who, meta, personal} = value;
  const strings = [...REQUIRED_STRINGS, ...OPTIONAL_STRINGS.filter((name) => Object.hasOwn(value, name))];
  return REQUIRED.every((name) => Object.hasOwn(value, name))
    && names.every((name) => REQUIRED.includes(name) || OPTIONAL_STRINGS.includes(name) || name === 'personal')
    && strings.every((name) => isPlainString(value[name]))
    && typeof seq === 'number' && Number.isSafeInteger(seq) && seq > 0
    && isObject(who) && Object.keys(who).length === 2 && isPlainString(who.id) && isPlainString(who.role)
    && (!Object.hasOwn(value, 'personal') || isStringMap(personal))
    && isObject(meta) && isPlain(meta);
}

function isPlainString(value: unknown): boolean {
  return typeof value === 'string' && isPlain(value);
}

function isStringMap(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length > 0 && Object.values(value).every(isPlainString);
}
