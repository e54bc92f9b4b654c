/** Runs one verification of the log at a time. Between them this browser stores the last verified checkpoint and the key
 * that the user pinned. */
import {half, read, type AuditKey, type AuditLine} from '../api';
import type {components} from '../api.generated';
import {trustedScript} from '../scripts';
import {unbase64, type Bytes} from './bytes';
import {verifiedNote, type Checkpoint} from './checkpoint';
import {TamperedLog, tenantOf} from './logVerifier';
import {lineOf, parseHashes, verifyInclusion} from './proof';
import {forget, load, sizeOf, store, verifyNewest, verifyStored, type StoredCheckpoint} from './storedCheckpoint';
import type {Job, Report} from './worker';
import workerUrl from './worker.ts?worker&url';

const PIN_STORAGE_KEY = 'interlock.audit.pin';

type Failure = 'insecure' | 'cannot';
export type Outcome = Report | {state: 'otherLog'; origin: string} | {state: 'impossible'; why: Failure}
  /** The first `first` of `signed` records are covered by the checkpoint that this browser stored. */
  | {state: 'continued'; first: number; signed: number; hashes: number};
/** The result for one record: included in the signed log, by a proof of `hashes` hashes; changed; not in the log at its
 * position; newer than the signed checkpoint; or not verifiable. */
export type RecordProof = {state: 'included'; size: number; hashes: number}
  | {state: 'changed'} | {state: 'absent'} | {state: 'unsigned'} | {state: 'failed'; reason: string};

export class Verification {
  outcome = $state<Outcome>({state: 'reading', records: 0});
  key = $state<AuditKey | null>(null);
  /** The size and time of the checkpoint that this browser stored before; null if it has none. */
  known = $state<{size: number; at: string} | null>(null);
  /** Up to which record, and when, each record was checked individually. */
  fullCheck = $state<{size: number; at: string} | null>(null);
  /** The newest verified checkpoint; null until a verification has succeeded. */
  signed = $state.raw<Checkpoint | null>(null);
  pinned = $state(localStorage.getItem(PIN_STORAGE_KEY));
  /** About how many records the log has, for the progress. */
  about = $state(0);
  private worker: Worker | null = null;
  private raw: Bytes = new Uint8Array();
  /** The running update of the checkpoint. Only one runs at a time, so that each newer checkpoint is verified against the
   * previous one. */
  private update: Promise<void> | null = null;

  /** Verify that the log continues from the stored checkpoint; or, with `isFull` or without one, every record. */
  async run(isFull: boolean): Promise<void> {
    this.stop();
    this.signed = null;
    this.outcome = {state: 'reading', records: 0};
    const why = await unsupportedReason();
    if (why !== null) {
      this.outcome = {state: 'impossible', why};
      return;
    }
    await this.attempt(async () => {
      this.key = await read<AuditKey>('/v1/audit/key');
      this.raw = unbase64(this.pinned ?? this.key.public_key) ?? new Uint8Array();
      const saved = load();
      this.known = saved === null ? null : {size: sizeOf(saved.note), at: saved.at};
      this.fullCheck = saved === null ? null : saved.whole ?? this.known;
      const origin = saved?.note.split('\n', 1)[0];
      if (origin !== undefined && origin !== this.key.origin) this.outcome = {state: 'otherLog', origin};
      else if (saved !== null && !isFull) await this.extend(await verifyStored(saved, this.raw), null);
      else await this.verifyAll(saved);
    });
  }

  stop(): void {
    this.worker?.terminate();
    this.worker = null;
  }

  /** Delete the stored checkpoint of another log, and verify this one. */
  forget(): void {
    forget();
    void this.run(true);
  }

  pin(): void {
    if (this.key === null) return;
    localStorage.setItem(PIN_STORAGE_KEY, this.key.public_key);
    this.pinned = this.key.public_key;
  }

  unpin(): void {
    localStorage.removeItem(PIN_STORAGE_KEY);
    this.pinned = null;
    void this.run(false);
  }

  /** Prove that the bytes of a shown record are at its position in the signed log. For a record that is newer than the
   * checkpoint, the gateway signs a new checkpoint, which must extend the verified one. */
  async prove(shown: AuditLine): Promise<RecordProof> {
    try {
      const line = lineOf(shown);
      const from = this.signed;
      if (from === null) throw new Error('unverified');
      if (line === null || line.record.tenant_id !== tenantOf(from.origin)) return {state: 'changed'};
      if (line.seq > from.size) {
        this.update ??= this.extend(from, from).finally(() => { this.update = null; });
        await this.update;
      }
      const signed = this.signed ?? from;
      if (line.seq > signed.size) return {state: 'unsigned'};
      const hashes = parseHashes((await read<components['schemas']['InclusionProof']>(
        `/v1/audit/proof/inclusion?seq=${line.seq}&size=${signed.size}`)).proof);
      return hashes !== null && verifyInclusion(line.digest, line.seq - 1, signed.size, hashes, signed.root)
        ? {state: 'included', size: signed.size, hashes: hashes.length} : {state: 'absent'};
    } catch (error) {
      // A log that does not continue is reported for the log, too; a gateway that does not respond is not.
      if (error instanceof TamperedLog) this.failed(error);
      return {state: 'failed', reason: error instanceof Error ? error.message : String(error)};
    }
  }

  private async attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.failed(error);
    }
  }

  private failed(error: unknown): void {
    this.signed = null;
    this.outcome = error instanceof TamperedLog ? {state: 'bad', kind: error.kind, seq: error.seq}
      : {state: 'failed', reason: error instanceof Error ? error.message : String(error)};
  }

  /** Replace the stored checkpoint by the newest one, by a proof of consistency, unless another verification has started. */
  private async extend(known: Checkpoint, signed: Checkpoint | null): Promise<void> {
    const {checkpoint, hashes} = await verifyNewest(known, this.raw);
    if (this.signed !== signed) return;
    if (this.outcome.state !== 'verified') {
      this.outcome = {state: 'continued', first: known.size, signed: checkpoint.size, hashes};
    }
    this.save(checkpoint);
  }

  private save(checkpoint: Checkpoint): void {
    this.signed = checkpoint;
    store({note: checkpoint.note, at: new Date().toISOString(), ...(this.fullCheck === null ? {} : {whole: this.fullCheck})});
  }

  /** Verify every record, in a worker. */
  private async verifyAll(saved: StoredCheckpoint | null): Promise<void> {
    this.about = sizeOf(await (await read.raw('/v1/audit/checkpoint')).text());
    const worker = new Worker(trustedScript(workerUrl), {type: 'module'});
    this.worker = worker;
    worker.onmessage = ({data}: MessageEvent<Report>) => {
      if (this.worker !== worker) return;
      if (data.state === 'verified') void this.storeVerified(data);
      else this.outcome = data;
      if (data.state !== 'reading') this.stop();
    };
    worker.onerror = (event) => {
      this.outcome = {state: 'failed', reason: event.message || 'worker'};
      this.stop();
    };
    worker.postMessage({
      half: half() ?? '', key: this.pinned ?? this.key?.public_key ?? '', kept: saved?.note ?? null,
    } satisfies Job);
  }

  private async storeVerified(report: Report & {state: 'verified'}): Promise<void> {
    const checkpoint = await verifiedNote(report.note, this.raw);
    if (checkpoint === null) return;
    this.fullCheck = {size: checkpoint.size, at: new Date().toISOString()};
    this.save(checkpoint);
    this.outcome = report;
  }
}

async function unsupportedReason(): Promise<Failure | null> {
  if (!isSecureContext) return 'insecure';
  try {
    await crypto.subtle.importKey('raw', new Uint8Array(32), {name: 'Ed25519'}, false, ['verify']);
    return null;
  } catch {
    return 'cannot';
  }
}
