/** One check of the log at a time, and what this browser keeps between them: the last checkpoint that it saw, as a
 * witness, and the key that the user pinned. */
import {half, read, type AuditKey, type AuditLine} from '../api';
import type {components} from '../api.generated';
import {trustedScript} from '../scripts';
import {unbase64, type Bytes} from './bytes';
import {genuine, type Checkpoint} from './checkpoint';
import {Bad, tenantOf} from './logVerifier';
import {hashesOf, includes, shownLine} from './proof';
import {follow, forget, knownOf, sizeOf, store, stored, type Witness} from './witness';
import type {Job, Report} from './worker';
import workerUrl from './worker.ts?worker&url';

const PIN = 'interlock.audit.pin';

type Failure = 'insecure' | 'cannot';
export type Outcome = Report | {state: 'otherLog'; origin: string} | {state: 'impossible'; why: Failure}
  /** The first `first` of `signed` records are those that this browser knew. */
  | {state: 'continued'; first: number; signed: number; hashes: number};
/** What was found of one record: in the signed log, by so many hashes; not the one that was written; not in the log at
 * its place; newer than what is signed; or not to be found out. */
export type Proven = {state: 'included'; size: number; hashes: number}
  | {state: 'changed'} | {state: 'absent'} | {state: 'unsigned'} | {state: 'failed'; reason: string};

export class Verification {
  outcome = $state<Outcome>({state: 'reading', records: 0});
  key = $state<AuditKey | null>(null);
  /** How many records the last checkpoint had, of this browser's own memory; null if it has none. */
  known = $state<{size: number; at: string} | null>(null);
  /** Up to where every record was checked one by one, and when. */
  whole = $state<{size: number; at: string} | null>(null);
  /** The newest checkpoint that is verified; null until a check has ended well. */
  signed = $state.raw<Checkpoint | null>(null);
  pinned = $state(localStorage.getItem(PIN));
  about = $state(0);
  private worker: Worker | null = null;
  private raw: Bytes = new Uint8Array();
  /** One step of the witness at a time, so that no two newer checkpoints stand unchecked against each other. */
  private step: Promise<void> | null = null;

  /** Check that the log continues from the checkpoint that this browser kept; every record of it, if there is none or
   * if `isWhole`. */
  async run(isWhole: boolean): Promise<void> {
    this.stop();
    this.signed = null;
    this.outcome = {state: 'reading', records: 0};
    const why = await obstacle();
    if (why !== null) {
      this.outcome = {state: 'impossible', why};
      return;
    }
    await this.attempt(async () => {
      this.key = await read<AuditKey>('/v1/audit/key');
      this.raw = unbase64(this.pinned ?? this.key.public_key) ?? new Uint8Array();
      const witness = stored();
      this.known = witness === null ? null : {size: sizeOf(witness.note), at: witness.at};
      this.whole = witness === null ? null : witness.whole ?? this.known;
      const origin = witness?.note.split('\n', 1)[0];
      if (origin !== undefined && origin !== this.key.origin) this.outcome = {state: 'otherLog', origin};
      else if (witness !== null && !isWhole) await this.goOn(await knownOf(witness, this.raw), null);
      else await this.begin(witness);
    });
  }

  stop(): void {
    this.worker?.terminate();
    this.worker = null;
  }

  /** Forget the checkpoint of another log, and check this one. */
  forget(): void {
    forget();
    void this.run(true);
  }

  pin(): void {
    if (this.key === null) return;
    localStorage.setItem(PIN, this.key.public_key);
    this.pinned = this.key.public_key;
  }

  unpin(): void {
    localStorage.removeItem(PIN);
    this.pinned = null;
    void this.run(false);
  }

  /** Check one record as it is shown: that its bytes are at its place in the log that is signed. One that is newer has
   * the log signed again, which has to continue what is verified. */
  async prove(shown: AuditLine): Promise<Proven> {
    try {
      const line = shownLine(shown);
      const from = this.signed;
      if (from === null) throw new Error('unverified');
      if (line === null || line.record.tenant_id !== tenantOf(from.origin)) return {state: 'changed'};
      if (line.seq > from.size) {
        this.step ??= this.goOn(from, from).finally(() => { this.step = null; });
        await this.step;
      }
      const signed = this.signed ?? from;
      if (line.seq > signed.size) return {state: 'unsigned'};
      const hashes = hashesOf((await read<components['schemas']['InclusionProof']>(
        `/v1/audit/proof/inclusion?seq=${line.seq}&size=${signed.size}`)).proof);
      return hashes !== null && includes(line.digest, line.seq - 1, signed.size, hashes, signed.root)
        ? {state: 'included', size: signed.size, hashes: hashes.length} : {state: 'absent'};
    } catch (error) {
      // A log that does not continue is a finding of its own; a gateway that does not answer is not one.
      if (error instanceof Bad) this.failed(error);
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
    this.outcome = error instanceof Bad ? {state: 'bad', kind: error.kind, seq: error.seq}
      : {state: 'failed', reason: error instanceof Error ? error.message : String(error)};
  }

  /** Move the witness on to the newest checkpoint, by a proof of consistency, unless another check began since. */
  private async goOn(known: Checkpoint, signed: Checkpoint | null): Promise<void> {
    const {checkpoint, hashes} = await follow(known, this.raw);
    if (this.signed !== signed) return;
    if (this.outcome.state !== 'whole') {
      this.outcome = {state: 'continued', first: known.size, signed: checkpoint.size, hashes};
    }
    this.keep(checkpoint);
  }

  private keep(checkpoint: Checkpoint): void {
    this.signed = checkpoint;
    store({note: checkpoint.note, at: new Date().toISOString(), ...(this.whole === null ? {} : {whole: this.whole})});
  }

  /** Check every record, beside the page. */
  private async begin(witness: Witness | null): Promise<void> {
    this.about = sizeOf(await (await read.raw('/v1/audit/checkpoint')).text());
    const worker = new Worker(trustedScript(workerUrl), {type: 'module'});
    this.worker = worker;
    worker.onmessage = ({data}: MessageEvent<Report>) => {
      if (this.worker !== worker) return;
      if (data.state === 'whole') void this.ended(data);
      else this.outcome = data;
      if (data.state !== 'reading') this.stop();
    };
    worker.onerror = (event) => {
      this.outcome = {state: 'failed', reason: event.message || 'worker'};
      this.stop();
    };
    worker.postMessage({
      half: half() ?? '', key: this.pinned ?? this.key?.public_key ?? '', kept: witness?.note ?? null,
    } satisfies Job);
  }

  private async ended(report: Report & {state: 'whole'}): Promise<void> {
    const checkpoint = await genuine(report.note, this.raw);
    if (checkpoint === null) return;
    this.whole = {size: checkpoint.size, at: new Date().toISOString()};
    this.keep(checkpoint);
    this.outcome = report;
  }
}

async function obstacle(): Promise<Failure | null> {
  if (!isSecureContext) return 'insecure';
  try {
    await crypto.subtle.importKey('raw', new Uint8Array(32), {name: 'Ed25519'}, false, ['verify']);
    return null;
  } catch {
    return 'cannot';
  }
}
