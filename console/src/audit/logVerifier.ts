/** Check an exported audit log as `interlock audit verify` does: each record's form and hash, the chain, the Merkle root
 * and the signature of the last checkpoint, and that the log continues from a checkpoint that was kept. */
import {hex, isEqual, type Bytes} from './bytes';
import {genuine, genuineLine, rootOf, type Checkpoint} from './checkpoint';
import {numberOf, readLine, type Line} from './record';

export type Kind = 'record changed' | 'hash changed' | 'personal data changed' | 'personal data missing' | 'inserted'
  | 'removed' | 'reordered' | 'cut tail' | 'rewritten' | 'bad signature' | 'checkpoint missing' | 'unsigned tail'
  | 'rolled back' | 'forked';

/** The first thing that is wrong, and the number of the record, if it is about one. */
export class Bad extends Error {
  readonly kind: Kind;
  readonly seq: number | null;

  constructor(kind: Kind, seq: number | null) {
    super(kind);
    this.kind = kind;
    this.seq = seq;
  }
}

export interface Whole {
  records: number;
  /** Records after the checkpoint: only their chain is checked. */
  unsigned: number;
  /** Records of which personal data was erased. */
  erased: number;
  checkpoint: Checkpoint;
}

/** Whole lines with their newlines, in the log's order. */
export type Batches = AsyncIterable<Uint8Array[]>;

const UNSIGNED_MAX = 1024;
const UNSIGNED_SPAN_MS = 120_000;
const FIRST_PREV = '0'.repeat(64);
const decoder = new TextDecoder();

/** Check a log against the raw bytes of a key. `kept` is a note that was stored at an earlier check.
 *
 * Raises: Bad. */
export async function check(
  batches: Batches, key: Bytes, kept: string | null, progress: (records: number) => void,
): Promise<Whole> {
  const log = new Log(key);
  let held: Uint8Array[] = [];
  const source = batches[Symbol.asyncIterator]();
  for (;;) {
    const next = await source.next();
    const isEnd = next.done === true;
    if (!isEnd && next.value.length === 0) continue;
    const following = isEnd ? undefined : next.value[0];
    await log.take(held, following, () => numbersOf(next, source));
    progress(log.leaves.length);
    if (isEnd) break;
    held = next.value;
  }
  if (log.checkpoint === null) throw new Bad('checkpoint missing', null);
  if (kept !== null) await checkKept(kept, key, log.checkpoint, log.leaves);
  log.checkErased(log.checkpoint.size);
  log.checkTail(log.checkpoint.size);
  return {
    records: log.leaves.length, unsigned: log.leaves.length - log.checkpoint.size, erased: log.closed.length,
    checkpoint: log.checkpoint,
  };
}

class Log {
  readonly leaves: Bytes[] = [];
  readonly closed: number[] = [];
  checkpoint: Checkpoint | null = null;
  private readonly key: Bytes;
  private tenant: string | null = null;
  private prev = FIRST_PREV;
  private readonly redactions: {seq: number; records: unknown[]}[] = [];
  private readonly times: string[] = [];

  constructor(key: Bytes) {
    this.key = key;
  }

  /** Check some lines; `following` is the one after them, `rest` reads the numbers of all that follow. */
  async take(lines: Uint8Array[], following: Uint8Array | undefined, rest: () => Promise<Set<number>>): Promise<void> {
    for (const [at, bytes] of lines.entries()) {
      const after = lines[at + 1] ?? following;
      if (isCheckpoint(bytes, after === undefined)) {
        await this.sign(decoder.decode(bytes));
        if (after !== undefined) throw new Bad('inserted', this.leaves.length + 1);
        return;
      }
      await this.add(readLine(bytes), after, async () => {
        const numbers = await rest();
        for (const one of lines.slice(at + 1)) numbers.add(numberOf(one) ?? 0);
        return numbers;
      });
    }
  }

  private async add(line: Line | null, after: Uint8Array | undefined, rest: () => Promise<Set<number>>): Promise<void> {
    const place = this.leaves.length + 1;
    if (line === null) throw new Bad('record changed', place);
    const {record, digest} = line;
    if (hex(digest) !== line.hash) {
      const goesOn = prevOf(after) === hex(digest) || await this.isLastSigned(after, digest);
      throw new Bad(goesOn ? 'hash changed' : 'record changed', place);
    }
    if (line.seq !== record.seq || record.id !== `aud_${String(line.seq).padStart(16, '0')}`) {
      throw new Bad('record changed', place);
    }
    if (this.tenant !== null && record.tenant_id !== this.tenant) throw new Bad('inserted', place);
    if (line.seq !== place) throw misplaced(line.seq, place, await rest());
    if (record.prev !== this.prev) {
      throw new Bad('record changed', place > 1 && prevOf(after) === hex(digest) ? place - 1 : place);
    }
    if (!line.isOpened) throw new Bad('personal data changed', place);
    if (line.isClosed) this.closed.push(place);
    if (record.action === 'redact' && Array.isArray(record.meta.records)) {
      this.redactions.push({seq: place, records: record.meta.records});
    }
    this.tenant = record.tenant_id;
    this.prev = line.hash;
    this.leaves.push(digest);
    this.times.push(record.at);
  }

  private async sign(line: string): Promise<void> {
    const found = await genuineLine(line, this.key);
    if (found === null || this.tenant !== null && this.tenant !== tenantOf(found.origin)) {
      throw new Bad('bad signature', null);
    }
    if (found.size > this.leaves.length) throw new Bad('cut tail', this.leaves.length + 1);
    if (!isEqual(rootOf(this.leaves.slice(0, found.size)), found.root)) throw new Bad('rewritten', found.size);
    this.checkpoint = found;
  }

  /** Whether the checkpoint that follows covers exactly the records so far and this one. */
  private async isLastSigned(after: Uint8Array | undefined, digest: Bytes): Promise<boolean> {
    if (after === undefined) return false;
    const found = await genuineLine(decoder.decode(after), this.key);
    return found?.size === this.leaves.length + 1 && isEqual(rootOf([...this.leaves, digest]), found.root);
  }

  /** Personal data may be gone only if a signed record says so. */
  checkErased(size: number): void {
    const named = new Set(this.redactions.filter(({seq}) => seq <= size).flatMap(({records}) => records));
    const missing = this.closed.find((seq) => !named.has(seq));
    if (missing !== undefined) throw new Bad('personal data missing', missing);
  }

  /** A gateway signs within seconds: it leaves few records unsigned, and of a short time. */
  checkTail(size: number): void {
    const times = this.times.slice(size);
    if (times.length > UNSIGNED_MAX) throw new Bad('unsigned tail', size + UNSIGNED_MAX + 1);
    let [first, last] = [Infinity, -Infinity];
    for (const [at, text] of times.entries()) {
      const ms = Date.parse(text);
      first = Math.min(first, ms);
      last = Math.max(last, ms);
      if (!(last - first <= UNSIGNED_SPAN_MS)) throw new Bad('unsigned tail', size + at + 1);
    }
  }
}

/** Check that a log continues from a checkpoint that was kept. */
async function checkKept(kept: string, key: Bytes, signed: Checkpoint, leaves: Bytes[]): Promise<void> {
  const known = await genuine(kept, key);
  if (known?.origin !== signed.origin) throw new Bad('bad signature', null);
  if (known.size > leaves.length) throw new Bad('rolled back', leaves.length + 1);
  if (known.note === signed.note) return;
  if (!isEqual(rootOf(leaves.slice(0, known.size)), known.root)) throw new Bad('forked', known.size);
}

function isCheckpoint(bytes: Uint8Array, isLast: boolean): boolean {
  const text = decoder.decode(bytes.subarray(0, 16));
  if (text.startsWith('{"checkpoint":')) return true;
  if (!isLast || text.startsWith('{"seq":')) return false;
  const whole = decoder.decode(bytes);
  return whole.includes('interlock.audit/') || whole.includes('{"checkpoint"');
}

function misplaced(found: number, place: number, later: Set<number>): Bad {
  if (found < place || later.has(place) && later.has(found)) return new Bad('inserted', found);
  return new Bad(later.has(place) ? 'reordered' : 'removed', place);
}

function prevOf(bytes: Uint8Array | undefined): string | null {
  const line = bytes === undefined ? null : readLine(bytes);
  return line?.record.prev ?? null;
}

async function numbersOf(
  next: IteratorResult<Uint8Array[], unknown>, source: AsyncIterator<Uint8Array[], unknown>,
): Promise<Set<number>> {
  const found = new Set<number>();
  for (let one = next; one.done !== true; one = await source.next()) {
    for (const line of one.value) found.add(numberOf(line) ?? 0);
  }
  return found;
}

export function tenantOf(origin: string): string | null {
  try {
    return decodeURIComponent(origin.slice(origin.lastIndexOf('/') + 1));
  } catch {
    return null;
  }
}
