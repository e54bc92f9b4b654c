/** One check of the whole log at a time, and what this browser keeps between them: the last checkpoint that it saw, as a
 * witness, and the key that the user pinned. */
import {half, read, type AuditKey} from '../api';
import {trustedScript} from '../scripts';
import type {Job, Report} from './worker';
import workerUrl from './worker.ts?worker&url';

const WITNESS = 'interlock.audit.witness';
const PIN = 'interlock.audit.pin';

type Failure = 'insecure' | 'cannot';
export type Outcome = Report | {state: 'otherLog'; origin: string} | {state: 'impossible'; why: Failure};
interface Witness { note: string; at: string }

export class Verification {
  outcome = $state<Outcome>({state: 'reading', records: 0});
  key = $state<AuditKey | null>(null);
  /** How many records the last checkpoint had, of this browser's own memory; null if it has none. */
  known = $state<{size: number; at: string} | null>(null);
  pinned = $state(localStorage.getItem(PIN));
  about = $state(0);
  private worker: Worker | null = null;

  /** Check the log from its first record. */
  async run(): Promise<void> {
    this.stop();
    this.outcome = {state: 'reading', records: 0};
    const why = await obstacle();
    if (why !== null) {
      this.outcome = {state: 'impossible', why};
      return;
    }
    try {
      this.key = await read<AuditKey>('/v1/audit/key');
      this.about = sizeOf(await (await read.raw('/v1/audit/checkpoint')).text());
    } catch (error) {
      this.outcome = {state: 'failed', reason: error instanceof Error ? error.message : String(error)};
      return;
    }
    const witness = stored();
    this.known = witness === null ? null : {size: sizeOf(witness.note), at: witness.at};
    const origin = witness?.note.split('\n', 1)[0];
    if (origin !== undefined && origin !== this.key.origin) {
      this.outcome = {state: 'otherLog', origin};
      return;
    }
    this.begin({half: half() ?? '', key: this.pinned ?? this.key.public_key, kept: witness?.note ?? null});
  }

  stop(): void {
    this.worker?.terminate();
    this.worker = null;
  }

  /** Forget the checkpoint of another log, and check this one. */
  forget(): void {
    localStorage.removeItem(WITNESS);
    void this.run();
  }

  pin(): void {
    if (this.key === null) return;
    localStorage.setItem(PIN, this.key.public_key);
    this.pinned = this.key.public_key;
  }

  unpin(): void {
    localStorage.removeItem(PIN);
    this.pinned = null;
    void this.run();
  }

  private begin(job: Job): void {
    const worker = new Worker(trustedScript(workerUrl), {type: 'module'});
    this.worker = worker;
    worker.onmessage = ({data}: MessageEvent<Report>) => {
      if (this.worker !== worker) return;
      this.outcome = data;
      if (data.state === 'reading') return;
      if (data.state === 'whole') {
        localStorage.setItem(WITNESS, JSON.stringify({note: data.note, at: new Date().toISOString()} satisfies Witness));
      }
      this.stop();
    };
    worker.onerror = (event) => {
      this.outcome = {state: 'failed', reason: event.message || 'worker'};
      this.stop();
    };
    worker.postMessage(job);
  }
}

function stored(): Witness | null {
  const text = localStorage.getItem(WITNESS);
  return text === null ? null : JSON.parse(text) as Witness;
}

function sizeOf(note: string): number {
  return Number(note.split('\n')[1]);
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
