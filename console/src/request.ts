import {changeOf, type Change} from './diff';
import {editsOf, members, shownEdit, type Edit} from './edits';
import {hasHidden, visible} from './visible';

/** One part of a request as it is shown. */
export interface Part {
  name: string;
  text: string;
  /** What is taken out and what is put in, of a tool that replaces one text by another. */
  change?: 'removed' | 'added';
  /** It fits on the row of its name. */
  short: boolean;
  /** The edit of a file, line by line, in place of a text. */
  lines?: Change;
}

export interface Shown {
  parts: Part[];
  hidden: boolean;
  /** The bytes as they are, if a part is not written as they have it; else "". */
  exact: string;
}

/** Write every member of a request's JSON bytes as parts: nothing is left out, and names are as the agent sent them.
 * Bytes that are not JSON are one part. */
export function shown(bytes: ArrayBuffer): Shown {
  const text = textOf(bytes);
  const raw: Shown = {parts: [{name: '', text: visible(text), short: false}], hidden: hasHidden(text), exact: ''};
  let value: Record<string, unknown> | null;
  try {
    value = members(JSON.parse(text));
  } catch {
    return raw;
  }
  // A member that stands twice is read once by JSON.parse: then the bytes themselves are shown.
  if (value === null || !isWhole(text, value)) return raw;
  // What is changed comes first, then what the tool is given; what the agent says of it follows.
  const isSubject = typeof value.tool_name === 'string';
  const {input, ...rest} = isSubject ? value : {input: value};
  const given = members(input) ?? {};
  const isEmpty = Object.keys(given).length === 0;
  const found = editsOf(given);
  const content = isSubject && 'content' in rest ? contentOf(rest.content) : [];
  const parts = [
    ...found.edits.map(edited),
    ...content.filter((one) => one.lines !== undefined),
    ...Object.entries(given).filter(([name]) => !found.used.has(name))
      .map(([name, member]) => part(isSubject ? `input.${name}` : name, member)),
    ...(isSubject && isEmpty && input !== undefined ? [part('input', input)] : []),
    ...content.filter((one) => one.lines === undefined),
    ...Object.entries(rest).filter(([name]) => name !== 'content').map(([name, member]) => part(name, member)),
  ];
  return parts.length === 0 ? raw : {parts, hidden: strings(value).some(hasHidden),
    exact: parts.some((one) => one.lines !== undefined) ? visible(text) : ''};
}

/** ACP's list of texts and diffs: each diff by its lines, what else there is as it is. */
function contentOf(content: unknown): Part[] {
  const items = Array.isArray(content) ? content as unknown[] : [];
  const edits = items.map(shownEdit);
  if (!edits.some((edit) => edit !== null)) return [part('content', content)];
  return items.map((item, at) => {
    const edit = edits[at] ?? null;
    return edit === null ? part(`content.${at}`, item) : edited(edit);
  });
}

function edited(edit: Edit): Part {
  return {name: '', text: '', short: false, lines: changeOf(edit)};
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
