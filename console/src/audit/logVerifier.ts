/** Verifies an exported audit log like `interlock audit verify`: the format and hash of each record, the chain, the Merkle
 * root and the signature of the last checkpoint, and that the log continues from a stored checkpoint. */
import {hex, isEqual, type Bytes} from './bytes';
import {rootOf, verifiedLine, verifiedNote, type Checkpoint} from './checkpoint';
import {numberOf, readLine, type Line} from './record';

export type Tampering = 'record changed' | 'hash changed' | 'personal data changed' | 'personal data missing' | 'inserted'
  | 'removed' | 'reordered' | 'cut tail' | 'rewritten' | 'bad signature' | 'checkpoint missing' | 'unsigned tail'
  | 'rolled back' | 'forked';

/** Thrown for the first inconsistency; `seq` is the number of the affected record, null if there is none. */
export class TamperedLog extends Error {
  readonly kind: Tampering;
  readonly seq: number | null;

  constructor(kind: Tampering, seq: number | null) {
    super(kind);
    this.kind = kind;
    this.seq = seq;
  }
}

export interface VerifiedLog {
  records: number;
  /** Records after the checkpoint: only their chain is checked. */
  unsigned: number;
  /** Records whose personal data was erased. */
  erased: number;
  checkpoint: Checkpoint;
}

/** Complete lines with their newlines, in the order of the log. */
export type Batches = AsyncIterable<Uint8Array[]>;

const UNSIGNED_MAX = 1024;
const UNSIGNED_SPAN_MS = 120_000;
const FIRST_PREV = '0'.repeat(64);
const decoder = new TextDecoder();

/** Verify a log with the raw bytes of a public key. `known` is the note that an earlier verification stored.
 *
 * Raises: TamperedLog. */
export async function verifyLog(
  batches: Batches, key: Bytes, known: string | null, progress: (records: number) => void,
): Promise<VerifiedLog> {
  const log = new LogVerifier(key);
  let batch: Uint8Array[] = [];
  const source = batches[Symbol.asyncIterator]();
  for (;;) {
    const next = await source.next();
    const isEnd = next.done === true;
    if (!isEnd && next.value.length === 0) continue;
    const following = isEnd ? undefined : next.value[0];
    await log.verify(batch, following, () => remainingNumbers(next, source));
    progress(log.leaves.length);
    if (isEnd) break;
    batch = next.value;
  }
  if (log.checkpoint === null) throw new TamperedLog('checkpoint missing', null);
  if (known !== null) await checkContinues(known, key, log.checkpoint, log.leaves);
  log.checkErased(log.checkpoint.size);
  log.checkTail(log.checkpoint.size);
  return {
    records: log.leaves.length, unsigned: log.leaves.length - log.checkpoint.size, erased: log.erased.length,
    checkpoint: log.checkpoint,
  };
}

class LogVerifier {
  readonly leaves: Bytes[] = [];
  /** The numbers of records whose personal data is missing. */
  readonly erased: number[] = [];
  checkpoint: Checkpoint | null = null;
  private readonly key: Bytes;
  private tenant: string | null = null;
  private prev = FIRST_PREV;
  private readonly redactions: {seq: number; records: unknown[]}[] = [];
  private readonly times: string[] = [];

  constructor(key: Bytes) {
    this.key = key;
  }

  /** Verify a batch of lines; `following` is the line after them, `rest` reads the sequence numbers of all later lines. */
  async verify(lines: Uint8Array[], following: Uint8Array | undefined, rest: () => Promise<Set<number>>): Promise<void> {
    for (const [at, bytes] of lines.entries()) {
      const after = lines[at + 1] ?? following;
      if (isCheckpoint(bytes, after === undefined)) {
        await this.checkSignature(decoder.decode(bytes));
        if (after !== undefined) throw new TamperedLog('inserted', this.leaves.length + 1);
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
    const position = this.leaves.length + 1;
    if (line === null) throw new TamperedLog('record changed', position);
    const {record, digest} = line;
    if (hex(digest) !== line.hash) {
      const isChained = prevOf(after) === hex(digest) || await this.isLastSigned(after, digest);
      throw new TamperedLog(isChained ? 'hash changed' : 'record changed', position);
    }
    if (line.seq !== record.seq || record.id !== `aud_${String(line.seq).padStart(16, '0')}`) {
      throw new TamperedLog('record changed', position);
    }
    if (this.tenant !== null && record.tenant_id !== this.tenant) throw new TamperedLog('inserted', position);
    if (line.seq !== position) throw misplacement(line.seq, position, await rest());
    if (record.prev !== this.prev) {
      throw new TamperedLog('record changed', position > 1 && prevOf(after) === hex(digest) ? position - 1 : position);
    }
    if (!line.isPersonalValid) throw new TamperedLog('personal data changed', position);
    if (line.isPersonalErased) this.erased.push(position);
    if (record.action === 'redact' && Array.isArray(record.meta.records)) {
      this.redactions.push({seq: position, records: record.meta.records});
    }
    this.tenant = record.tenant_id;
    this.prev = line.hash;
    this.leaves.push(digest);
    this.times.push(record.at);
  }

  private async checkSignature(line: string): Promise<void> {
    const found = await verifiedLine(line, this.key);
    if (found === null || this.tenant !== null && this.tenant !== tenantOf(found.origin)) {
      throw new TamperedLog('bad signature', null);
    }
    if (found.size > this.leaves.length) throw new TamperedLog('cut tail', this.leaves.length + 1);
    if (!isEqual(rootOf(this.leaves.slice(0, found.size)), found.root)) throw new TamperedLog('rewritten', found.size);
    this.checkpoint = found;
  }

  /** Whether the following checkpoint covers exactly the records so far and this one. */
  private async isLastSigned(after: Uint8Array | undefined, digest: Bytes): Promise<boolean> {
    if (after === undefined) return false;
    const found = await verifiedLine(decoder.decode(after), this.key);
    return found?.size === this.leaves.length + 1 && isEqual(rootOf([...this.leaves, digest]), found.root);
  }

  /** Check that a signed record documents each erasure of personal data. */
  checkErased(size: number): void {
    const named = new Set(this.redactions.filter(({seq}) => seq <= size).flatMap(({records}) => records));
    const missing = this.erased.find((seq) => !named.has(seq));
    if (missing !== undefined) throw new TamperedLog('personal data missing', missing);
  }

  /** Check the unsigned tail: a gateway signs within seconds, so few records of a short period are unsigned. */
  checkTail(size: number): void {
    const times = this.times.slice(size);
    if (times.length > UNSIGNED_MAX) throw new TamperedLog('unsigned tail', size + UNSIGNED_MAX + 1);
    let [first, last] = [Infinity, -Infinity];
    for (const [at, text] of times.entries()) {
      const ms = Date.parse(text);
      first = Math.min(first, ms);
      last = Math.max(last, ms);
      if (!(last - first <= UNSIGNED_SPAN_MS)) throw new TamperedLog('unsigned tail', size + at + 1);
    }
  }
}

/** Check that a log continues from a stored checkpoint. */
async function checkContinues(note: string, key: Bytes, signed: Checkpoint, leaves: Bytes[]): Promise<void> {
  const known = await verifiedNote(note, key);
  if (known?.origin !== signed.origin) throw new TamperedLog('bad signature', null);
  if (known.size > leaves.length) throw new TamperedLog('rolled back', leaves.length + 1);
  if (known.note === signed.note) return;
  if (!isEqual(rootOf(leaves.slice(0, known.size)), known.root)) throw new TamperedLog('forked', known.size);
}

function isCheckpoint(bytes: Uint8Array, isLast: boolean): boolean {
  const text = decoder.decode(bytes.subarray(0, 16));
  if (text.startsWith('{"checkpoint":')) return true;
  if (!isLast || text.startsWith('{"seq":')) return false;
  const whole = decoder.decode(bytes);
  return whole.includes('interlock.audit/') || whole.includes('{"checkpoint"');
}

function misplacement(found: number, position: number, later: Set<number>): TamperedLog {
  if (found < position || later.has(position) && later.has(found)) return new TamperedLog('inserted', found);
  return new TamperedLog(later.has(position) ? 'reordered' : 'removed', position);
}

function prevOf(bytes: Uint8Array | undefined): string | null {
  const line = bytes === undefined ? null : readLine(bytes);
  return line?.record.prev ?? null;
}

async function remainingNumbers(
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
