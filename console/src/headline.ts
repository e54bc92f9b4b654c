import type {Approval} from './api';
import {visible} from './visible';

const MAX_CHARS = 160;
const NAME = /^[\w.:/-]+$/u;
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
  if (given !== null && Object.keys(given).length === 0 && typeof subject?.title === 'string') {
    return cut(`${name}: ${JSON.stringify(subject.title)}`);
  }
  return cut(`${name} ${JSON.stringify(input)}`);
}

function members(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value as Record<string, unknown> : null;
}

/** A tool's name, quoted unless it is one word: the agent chooses it, and it is not to look like our own words. */
function plain(name: string): string {
  return NAME.test(name) ? name : JSON.stringify(name);
}

/** The words of a command's prompt. */
function prompt(payload: Record<string, unknown> | null): string {
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
