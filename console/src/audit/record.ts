/** One line of an exported audit log, in the only form that it may have. */
import {hex, hmac, leafOf, unhex, utf8, type Bytes} from './bytes';
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

/** A line that was read. `hash` is what the line says, `digest` what its bytes hash to. */
export interface Line {
  seq: number;
  hash: string;
  record: AuditRecord;
  digest: Bytes;
  /** Every personal value that is still there is the one that the record commits to. */
  isOpened: boolean;
  /** A personal value that the record commits to was erased. */
  isClosed: boolean;
}

const REQUIRED = ['id', 'tenant_id', 'seq', 'prev', 'at', 'who', 'action', 'meta'];
const TEXTS = ['id', 'tenant_id', 'prev', 'at', 'action'];
const OPTIONAL_TEXTS = ['command_id', 'session_id', 'approval_id'];
const FRAME = /^\{"seq":([0-9]{1,16}),"hash":"([^"]*)",/;
const RECORD = '"record":';
const PERSONAL = '"personal":';
const SALT = /^[0-9a-f]{64}$/;
const decoder = new TextDecoder('utf-8', {fatal: true, ignoreBOM: true});

/** Read a record's line with its newline; null if it is not in its one form. */
export function readLine(bytes: Uint8Array): Line | null {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return null;
  }
  const frame = FRAME.exec(text);
  const at = text.indexOf(RECORD);
  if (frame?.[1] === undefined || frame[2] === undefined || at < 0 || !text.endsWith('}\n')) return null;
  const raw = text.slice(at + RECORD.length, -2);
  const record = parsed(raw);
  const personal = pairs(text.slice(frame[0].length, at));
  const seq = Number(frame[1]);
  if (!isRecord(record) || personal === null || String(seq) !== frame[1]) return null;
  const committed = record.personal ?? {};
  const isOpened = Object.entries(personal).every(([name, [salt, value]]) =>
    SALT.test(salt) && hex(hmac(unhex(salt), utf8(`${name}\0${value}`))) === committed[name]);
  return {
    seq, hash: frame[2], record, digest: leafOf(text.length === bytes.length ? bytes.subarray(at + RECORD.length, -2) : utf8(raw)), isOpened,
    isClosed: Object.keys(committed).some((name) => !Object.hasOwn(personal, name)),
  };
}

/** The number that a line begins with, whether or not the rest of it can be read. */
export function numberOf(bytes: Uint8Array): number | null {
  const found = /^\{"seq":([0-9]{1,16}),/.exec(String.fromCharCode(...bytes.subarray(0, 32)));
  return found === null ? null : Number(found[1]);
}

/** A JSON value, if the text is its canonical form. */
function parsed(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return canonical(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

/** The personal values between the frame of a line and its record; null if that part is in another form. */
function pairs(between: string): Record<string, [string, string]> | null {
  if (between === '') return {};
  if (!between.startsWith(PERSONAL) || !between.endsWith(',')) return null;
  const value = parsed(between.slice(PERSONAL.length, -1));
  if (!isObject(value)) return null;
  const every = Object.values(value);
  return every.length > 0 && every.every((pair) =>
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
  const texts = [...TEXTS, ...OPTIONAL_TEXTS.filter((name) => Object.hasOwn(value, name))];
  return REQUIRED.every((name) => Object.hasOwn(value, name))
    && names.every((name) => REQUIRED.includes(name) || OPTIONAL_TEXTS.includes(name) || name === 'personal')
    && texts.every((name) => isText(value[name]))
    && typeof seq === 'number' && Number.isSafeInteger(seq) && seq > 0
    && isObject(who) && Object.keys(who).length === 2 && isText(who.id) && isText(who.role)
    && (!Object.hasOwn(value, 'personal') || isTexts(personal))
    && isObject(meta) && isPlain(meta);
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && isPlain(value);
}

function isTexts(value: unknown): boolean {
  return isObject(value) && Object.keys(value).length > 0 && Object.values(value).every(isText);
}
