/** What a session's stream amounts to: blocks in their order, made of its frames. Deltas are put at their offset, so
 * that nothing is shown twice after a lost connection, and a block that ends replaces what was streamed of it. */

import {shownEdit} from '../edits';

export interface FrameEvent {
  n?: number | null;
  kind: string;
  frame?: {type: string; payload: Record<string, unknown>; timestamp?: string; metadata?: Record<string, unknown>};
  notice?: {code: string; message: string} | null;
}

export type Block =
  | {kind: 'prompt' | 'text' | 'thinking'; id: string; text: string}
  | {kind: 'tool'; id: string; name: string; title: string; input: unknown; output: string; state: string;
    duration_ms: number | null; truncated: boolean; changed: unknown[]}
  | {kind: 'ask'; id: string; title: string; approval: string; decision: string; by: string}
  | {kind: 'notice' | 'error'; id: string; text: string; code: string}
  | {kind: 'file'; id: string; name: string; size: number}
  | {kind: 'end'; id: string; reason: string}
  | {kind: 'compacted'; id: string; before: number; after: number};

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

export class Blocks {
  list: Block[] = $state([]);
  /** The newest durable event that was taken. */
  seen = 0;
  private byId = new Map<string, Block>();
  /** Code points that have arrived of each text. To count a long one again with every piece would take too long. */
  private lengths = new Map<string, number>();

  take(event: FrameEvent): void {
    if (typeof event.n === 'number') {
      if (event.n <= this.seen) return;
      this.seen = event.n;
    }
    if (event.notice) {
      this.add({kind: 'notice', id: `n${event.n ?? ''}`, text: event.notice.message, code: event.notice.code});
    } else if (event.frame !== undefined && event.kind !== 'refused') {
      this.frame(event.frame.type, event.frame.payload, `n${event.n ?? ''}`);
    }
  }

  private add(block: Block): Block {
    this.list.push(block);
    const kept = this.list[this.list.length - 1] ?? block;  // The proxy, so that a change of it is seen.
    this.byId.set(block.id, kept);
    return kept;
  }

  private spoken(kind: 'text' | 'thinking', id: string): Block & {kind: 'prompt' | 'text' | 'thinking'} {
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

  private frame(type: string, p: Record<string, unknown>, id: string): void {
    switch (type) {
      case 'control.prompt.request': {
        const parts = Array.isArray(p.content) ? p.content as Record<string, unknown>[] : [];
        const words = text(p.text) || parts.map((part) => text(part.text ?? part.value) || `📎 ${text(part.name ?? part.type)}`).join('\n');
        if (p.silent !== true && words !== '') this.add({kind: 'prompt', id, text: words});
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
        if (count((p.chunk as {index?: number} | null)?.index) === 0) {
          this.add({kind: 'file', id, name: text(p.name), size: count(p.size)});
        }
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
