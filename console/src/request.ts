import {hasHidden, visible} from './visible';

/** One part of a request as it is shown. */
export interface Part {
  name: string;
  text: string;
  /** What is taken out and what is put in, of a tool that replaces one text by another. */
  change?: 'removed' | 'added';
  /** It fits on the row of its name. */
  short: boolean;
}

export interface Shown {
  parts: Part[];
  hidden: boolean;
}

/** Write every member of a request's JSON bytes as parts: nothing is left out, and names are as the agent sent them.
 * Bytes that are not JSON are one part. */
export function shown(bytes: ArrayBuffer): Shown {
  const text = textOf(bytes);
  const raw: Part[] = [{name: '', text: visible(text), short: false}];
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return {parts: raw, hidden: hasHidden(text)};
  }
  // A member that stands twice is read once by JSON.parse: then the bytes themselves are shown.
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !isWhole(text, value)) {
    return {parts: raw, hidden: hasHidden(text)};
  }
  // What the tool is given comes first; what the agent says of it follows.
  const {input, ...rest} = value as Record<string, unknown>;
  const nested = typeof input === 'object' && input !== null && !Array.isArray(input) && Object.keys(input).length > 0;
  const parts = nested
    ? [...Object.entries(input).map(([name, member]) => part(`input.${name}`, member)),
      ...Object.entries(rest).map(([name, member]) => part(name, member))]
    : Object.entries(value).map(([name, member]) => part(name, member));
  return {parts: parts.length > 0 ? parts : raw, hidden: strings(value).some(hasHidden)};
}

const REMOVED = new Set(['old_string', 'old_str', 'oldText', 'old_text']);
const ADDED = new Set(['new_string', 'new_str', 'newText', 'new_text']);

/** Bytes as text; those that are not UTF-8 are written as `\\xNN`. */
function textOf(bytes: ArrayBuffer): string {
  try {
    return new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes);
  } catch {
    return Array.from(new Uint8Array(bytes), (byte) =>
      byte >= 32 && byte < 127 || byte === 10 ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`,
    ).join('');
  }
}

function last(name: string): string {
  return name.slice(name.lastIndexOf('.') + 1);
}

const SHORT = 40;

function part(name: string, member: unknown): Part {
  const text = visible(typeof member === 'string' ? member : JSON.stringify(member, null, 2));
  return {
    name: visible(name),
    text,
    short: !name.startsWith('input.') && text.length <= SHORT && !text.includes('\n'),
    ...(REMOVED.has(last(name)) ? {change: 'removed' as const} : ADDED.has(last(name)) ? {change: 'added' as const} : {}),
  };
}

/** Every string in a value, names of members as well. */
function strings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [name, ...strings(member)]);
}

/** Whether writing the value again yields the same JSON, whatever its blanks: no member is lost, no number is rounded. */
function isWhole(text: string, value: unknown): boolean {
  return squeezed(text) === squeezed(JSON.stringify(value));
}

function squeezed(text: string): string {
  let out = '';
  for (const [piece] of text.matchAll(/"(?:[^"\\]|\\.)*"|[^"\s]+/gs)) {
    out += piece.startsWith('"') ? JSON.stringify(JSON.parse(piece)) : piece;
  }
  return out;
}
