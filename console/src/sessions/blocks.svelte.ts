/** What a session's stream amounts to: blocks in their order, made of its frames. Deltas are put at their offset, so
 * that nothing is shown twice after a lost connection, and a block that ends replaces what was streamed of it. */

import type {components} from '../api.generated';
import {editsOf, members, shownEdit, type Edit} from '../edits';

export interface FrameEvent {
  n?: number | null;
  kind: string;
  frame?: {type: string; payload: Record<string, unknown>; timestamp?: string; metadata?: Record<string, unknown>};
  notice?: {code: string; message: string} | null;
}

/** A file that came with a prompt or from the agent: by the id of its transfer, or within its frame as base64. */
export interface SentFile {
  name: string;
  media: string;
  size: number;
  transfer: string;
  data: string;
  /** All of it has arrived. */
  isWhole: boolean;
}

/** An entry of a transcript, as far as it is shown. */
export interface Entry {
  id: string;
  timestamp: string;
  summary?: string;
  message?: {role: string; content?: string | Record<string, unknown>[]; toolCallId?: string; isError?: boolean};
}

export type Block =
  | {kind: 'text' | 'thinking'; id: string; text: string}
  | {kind: 'prompt'; id: string; text: string; files: SentFile[]}
  | {kind: 'tool'; id: string; name: string; title: string; input: unknown; output: string; state: string;
    duration_ms: number | null; truncated: boolean; changed: unknown[]}
  | {kind: 'ask'; id: string; title: string; approval: string; decision: string; by: string}
  | {kind: 'notice' | 'error'; id: string; text: string; code: string}
  | {kind: 'file'; id: string; file: SentFile}
  | {kind: 'end'; id: string; reason: string}
  | {kind: 'compacted'; id: string; before: number; after: number};

type Schemas = components['schemas'];

const QUIET_ENDS = new Set(['end_turn', 'tool_use']);

function text(value: unknown): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value, null, 2);
}

function count(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** Characters of a text as offsets count them: code points. */
function points(piece: string): number {
  let found = 0;
  for (const _ of piece) found += 1;
  return found;
}

/** What a tool call was to change by its input, else what it says that it changed. */
export function toolEdits(tool: Block & {kind: 'tool'}): Edit[] {
  const asked = editsOf(members(tool.input) ?? {}).edits;
  return asked.length > 0 ? asked : tool.changed.map(shownEdit).filter((one) => one !== null);
}

/** What a part of a prompt that is not text brings. */
function sentWith(part: Record<string, unknown>): SentFile {
  const data = text(part.data);
  return {name: text(part.name ?? part.type), media: text(part.media_type), size: Math.floor(data.replace(/=+$/, '').length * 3 / 4),
    transfer: text(part.transfer_id), data, isWhole: true};
}

/** The block, so that a change of it is seen. */
function watched(block: Block): Block {
  const kept = $state(block);
  return kept;
}

/** Put what came of a block before into what is here of it, which is newer. */
function complete(here: Block, older: Block): void {
  if (here.kind === 'tool' && older.kind === 'tool') {
    if (here.name === '') [here.name, here.title, here.input] = [older.name, older.title, older.input];
    if (here.state === 'running') {
      [here.state, here.duration_ms, here.truncated, here.changed] = [older.state, older.duration_ms, older.truncated, older.changed];
    }
    if (here.output === '') here.output = older.output;
  } else if (here.kind === 'ask' && older.kind === 'ask') {
    here.title ||= older.title;
    here.approval ||= older.approval;
    if (here.decision === '') [here.decision, here.by] = [older.decision, older.by];
  } else if (here.kind === 'file' && older.kind === 'file') {
    here.file.isWhole ||= older.file.isWhole;
  }
}

export class Blocks {
  /** So many came in front of those that were there first. */
  front = $state(0);
  private all: Block[] = [];
  /** Grows with each change of which blocks there are: thousands are not watched one by one. */
  private changes = $state(0);
  /** The tool calls that edited files, and did not fail. */
  edited: (Block & {kind: 'tool'})[] = $state.raw([]);
  /** The plan and the settings that the agent reported last; null if these frames have none. */
  plan: Schemas['PlanChanged'] | null = $state.raw(null);
  settings: Schemas['AgentSettings'] | null = $state.raw(null);
  /** The newest durable event that was taken. */
  seen = 0;
  private byId = new Map<string, Block>();
  /** Code points that have arrived of each text. To count a long one again with every piece would take too long. */
  private lengths = new Map<string, number>();

  get list(): readonly Block[] {
    void this.changes;
    return this.all;
  }

  /** Put in what came just before all that is here. A block that continues here stands where it began. */
  takeBefore(events: readonly FrameEvent[]): void {
    const older = new Blocks();
    for (const event of events) older.take(event);
    const moved = new Set<Block>();
    const before = older.all.map((block) => {
      const here = this.byId.get(block.id);
      if (here === undefined) {
        this.byId.set(block.id, block);
        return block;
      }
      complete(here, block);
      moved.add(here);
      return here;
    });
    for (const [name, length] of older.lengths) if (!this.lengths.has(name)) this.lengths.set(name, length);
    this.all = [...before, ...(moved.size > 0 ? this.all.filter((block) => !moved.has(block)) : this.all)];
    const known = new Set(this.edited);
    const edited = before.filter((block) => block.kind === 'tool' && block.state === 'ok' && !known.has(block) && toolEdits(block).length > 0);
    if (edited.length > 0) this.edited = [...edited as (Block & {kind: 'tool'})[], ...this.edited];
    this.plan ??= older.plan;
    this.settings ??= older.settings;
    this.front += before.length - moved.size;
    this.changes += 1;
  }

  /** Put what the session began with, which is in no frame of it, in front of all that is here. */
  takeEntries(entries: readonly Entry[]): void {
    const before = new Blocks();
    for (const entry of entries) before.entry(entry);
    for (const block of before.all) this.byId.set(block.id, block);
    this.all = [...before.all, ...this.all];
    this.front += before.all.length;
    this.changes += 1;
  }

  private entry({id, summary, message}: Entry): void {
    const content = message?.content ?? summary ?? '';
    const parts = typeof content === 'string' ? [{type: 'text', text: content}] : content;
    const words = parts.map((part) => part.type === 'text' ? text(part.text) : '').filter((one) => one !== '').join('\n');
    if (message?.role === 'toolResult') {
      const tool = this.tool(text(message.toolCallId));
      [tool.output, tool.state] = [words, message.isError === true ? 'error' : 'ok'];
    } else if (words !== '') {
      this.add(message?.role === 'user' ? {kind: 'prompt', id: `entry ${id}`, text: words, files: []} : {kind: 'text', id: `entry ${id}`, text: words});
    }
    for (const part of parts as Record<string, unknown>[]) {
      if (part.type !== 'toolCall') continue;
      const tool = this.tool(text(part.id));
      [tool.name, tool.input, tool.state] = [text(part.name), part.arguments, 'ok'];
    }
  }

  take(event: FrameEvent): void {
    if (typeof event.n === 'number') {
      if (event.n <= this.seen) return;
      this.seen = event.n;
    }
    if (event.notice) {
      this.add({kind: 'notice', id: `n${event.n ?? ''}`, text: event.notice.message, code: event.notice.code});
    } else if (event.frame?.type === 'agent.error' && event.frame.metadata?.expected === true) {
      return; // The runner itself ended the agent, for example because it was idle: no failure to show.
    } else if (event.frame !== undefined && event.kind !== 'refused') {
      this.frame(event.frame.type, event.frame.payload, `n${event.n ?? ''}`);
    }
  }

  private add(block: Block): Block {
    const kept = watched(block);
    this.all.push(kept);
    this.byId.set(block.id, kept);
    this.changes += 1;
    return kept;
  }

  private spoken(kind: 'text' | 'thinking', id: string): Block & {kind: 'text' | 'thinking'} {
    const found = this.byId.get(id);
    if (found !== undefined && (found.kind === 'text' || found.kind === 'thinking')) return found;
    return this.add({kind, id, text: ''}) as Block & {kind: 'text'};
  }

  private tool(id: string): Block & {kind: 'tool'} {
    const found = this.byId.get(`tool ${id}`);
    if (found?.kind === 'tool') return found;
    return this.add({kind: 'tool', id: `tool ${id}`, name: '', title: '', input: null, output: '', state: 'running',
      duration_ms: null, truncated: false, changed: []}) as Block & {kind: 'tool'};
  }

  private ask(id: string): Block & {kind: 'ask'} {
    const found = this.byId.get(`ask ${id}`);
    if (found?.kind === 'ask') return found;
    return this.add({kind: 'ask', id: `ask ${id}`, title: '', approval: '', decision: '', by: ''}) as Block & {kind: 'ask'};
  }

  /** What a piece adds to the text of this name: what is there already is passed over, a gap is marked. */
  private added(name: string, offset: number, piece: string): string {
    const length = this.lengths.get(name) ?? 0;
    const end = offset + points(piece);
    if (end > length) this.lengths.set(name, end);
    if (offset > length) return `…${piece}`;
    return offset === length ? piece : Array.from(piece).slice(length - offset).join('');
  }

  /** A file comes in one frame, or in pieces, and can be read once its last piece is there. */
  private file(p: Record<string, unknown>): void {
    const id = `file ${text(p.transfer_id)}`;
    const chunk = p.chunk as {index?: number; count?: number} | null | undefined;
    const known = this.byId.get(id);
    const block = known?.kind === 'file' ? known : this.add({kind: 'file', id, file: {name: text(p.name), media: text(p.media_type),
      size: count(p.size), transfer: text(p.transfer_id), data: '', isWhole: false}}) as Block & {kind: 'file'};
    if (count(chunk?.index) + 1 >= (chunk?.count ?? 1)) block.file.isWhole = true;
  }

  private frame(type: string, p: Record<string, unknown>, id: string): void {
    switch (type) {
      case 'control.prompt.request': {
        const parts = Array.isArray(p.content) ? p.content as Record<string, unknown>[] : [];
        const words = text(p.text) || parts.map((part) => text(part.text ?? part.value)).filter((one) => one !== '').join('\n');
        const files = parts.filter((part) => part.type !== 'text' || part.transfer_id !== undefined).map(sentWith);
        if (p.silent !== true && (words !== '' || files.length > 0)) this.add({kind: 'prompt', id, text: words, files});
        break;
      }
      case 'agent.text.delta': case 'agent.thinking.delta': {
        const block = this.spoken(type === 'agent.text.delta' ? 'text' : 'thinking', text(p.block_id));
        block.text += this.added(block.id, count(p.offset), text(p.text));
        break;
      }
      case 'agent.text.done': case 'agent.thinking.done': {
        const block = this.spoken(type === 'agent.text.done' ? 'text' : 'thinking', text(p.block_id));
        block.text = text(p.text);
        this.lengths.set(block.id, points(block.text));
        break;
      }
      case 'x-interlock.plan.changed':
        this.plan = p as Schemas['PlanChanged'];
        break;
      case 'x-interlock.settings.changed':
        this.settings = p as Schemas['AgentSettings'];
        break;
      case 'session.capabilities':
        if (p.settings !== undefined && p.settings !== null) this.settings = p.settings as Schemas['AgentSettings'];
        break;
      case 'tool.invoke.request': {
        const tool = this.tool(text(p.invocation_id));
        [tool.name, tool.title, tool.input] = [text(p.tool_name), text(p.title), p.input];
        break;
      }
      case 'tool.invoke.stream': {
        const tool = this.tool(text(p.invocation_id));
        tool.output += this.added(`${tool.id} ${text(p.channel)}`, count(p.offset), text(p.text));
        break;
      }
      case 'tool.invoke.result': {
        const tool = this.tool(text(p.invocation_id));
        tool.state = text(p.status);
        tool.duration_ms = count(p.duration_ms);
        tool.truncated = p.truncated !== undefined && p.truncated !== null && p.truncated !== false;
        const isDiff = p.output_type === 'diff' && Array.isArray(p.output) && !tool.truncated && p.output.every((one) => shownEdit(one) !== null);
        if (isDiff) tool.changed = p.output as unknown[];
        const output = isDiff ? '' : text(p.output);
        if (output !== '' && !tool.truncated) tool.output = output;
        if (tool.state === 'ok' && toolEdits(tool).length > 0) this.edited = [...this.edited, tool];
        break;
      }
      case 'agent.interaction.request':
        this.ask(text(p.interaction_id)).title = text(p.title);
        break;
      case 'x-interlock.interaction.held':
        this.ask(text(p.interaction_id)).approval = text(p.approval_id);
        break;
      case 'control.interaction.response': {
        const ask = this.ask(text(p.interaction_id));
        [ask.decision, ask.by] = [text(p.decision), text(p.by)];
        break;
      }
      case 'x-interlock.interaction.resolved': {
        const ask = this.ask(text(p.interaction_id));
        if (ask.decision === '') [ask.decision, ask.by] = [text(p.outcome), text(p.by)];
        break;
      }
      case 'agent.error': case 'session.error':
        this.add({kind: 'error', id, text: text(p.message), code: text(p.error_code)});
        break;
      case 'agent.file.transfer':
        if (p.purpose !== 'prompt') this.file(p);
        break;
      case 'session.compacted':
        this.add({kind: 'compacted', id, before: count(p.previous_token_count), after: count(p.current_token_count)});
        break;
      case 'session.turn.end':
        if (!QUIET_ENDS.has(text(p.stop_reason))) this.add({kind: 'end', id, reason: text(p.stop_reason)});
        break;
      default:
    }
  }
}
