import type {Approval} from './api';
import {changeOf} from './diff';
import {editsOf, members, shownEdit, type Edit} from './edits';
import {visible} from './visible';

const MAX_CHARS = 160;
const NAME = /^[\w.:/-]+$/u;
/** The lines of a longer edit are not counted: the list is written again with every change. */
const MAX_COUNTED_CHARS = 20_000;
const COMMAND = new Set(['command', 'cwd', 'description', 'timeout']);

/** The act of an approval in one line, from what a yes covers: the gateway's own title is outside of the digest. */
export function headline(asked: Approval): string {
  const subject = members(asked.subject);
  const input = subject === null ? asked.input : subject.input;
  const given = members(input);
  const words = asked.door === 'command' ? prompt(given) : '';
  const name = plain(typeof subject?.tool_name === 'string' ? subject.tool_name : asked.tool_name ?? asked.agent_id);
  if (words !== '') return cut(`${asked.agent_id}: ${words}`);
  if (given !== null && typeof given.command === 'string' && Object.keys(given).every((one) => COMMAND.has(one))) {
    return cut(`$ ${given.command}`);
  }
  const edits = given === null ? [] : editsOf(given).edits;
  const said = Array.isArray(subject?.content) ? (subject.content as unknown[]).map(shownEdit).filter((one) => one !== null) : [];
  if (edits.length + said.length > 0) return cut(`${name} ${edited(edits.length > 0 ? edits : said)}`);
  if (given !== null && Object.keys(given).length === 0 && typeof subject?.title === 'string') {
    return cut(`${name}: ${JSON.stringify(subject.title)}`);
  }
  return cut(`${name} ${JSON.stringify(input)}`);
}

/** The files of edits, and how many lines they add and remove. */
function edited(edits: Edit[]): string {
  const paths = [...new Set(edits.map((one) => one.path))];
  const files = `${plain(paths[0] ?? '')}${paths.length > 1 ? ` + ${paths.length - 1}` : ''}`;
  if (edits.reduce((sum, one) => sum + one.text.length + (one.old?.length ?? 0), 0) > MAX_COUNTED_CHARS) return files;
  const changes = edits.map(changeOf);
  return `${files} (+${changes.reduce((sum, one) => sum + one.added, 0)} −${changes.reduce((sum, one) => sum + one.removed, 0)})`;
}

/** A tool's name, quoted unless it is one word: the agent chooses it, and it is not to look like our own words. */
function plain(name: string): string {
  return NAME.test(name) ? name : JSON.stringify(name);
}

/** The words of a command's prompt. */
export function prompt(payload: Record<string, unknown> | null): string {
  const messages = Array.isArray(payload?.messages) ? payload.messages as unknown[] : [];
  return messages.flatMap((message) => {
    const content = members(message)?.content;
    return Array.isArray(content) ? content as unknown[] : [];
  }).map((part) => members(part)?.value).filter((value) => typeof value === 'string').join(' ');
}

function cut(text: string): string {
  const line = visible(text.trim().replace(/\s*\r?\n\s*/gu, ' ⏎ ').replace(/\s+/gu, ' '));
  return line.length > MAX_CHARS ? `${line.slice(0, MAX_CHARS - 1)}…` : line;
}
