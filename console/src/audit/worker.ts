/** Downloads and verifies the log in a worker, so that the page stays responsive. */
import {unbase64} from './bytes';
import {splitLines} from './lines';
import {TamperedLog, verifyLog, type Tampering} from './logVerifier';

export interface Job {
  /** The half of this tab's login that is sent as a header. */
  half: string;
  /** The key in base64. */
  key: string;
  kept: string | null;
}

export type Report =
  | {state: 'reading'; records: number}
  | {state: 'verified'; records: number; signed: number; erased: number; origin: string; note: string; ms: number}
  | {state: 'bad'; kind: Tampering; seq: number | null}
  | {state: 'failed'; reason: string};

function send(report: Report): void {
  postMessage(report);
}

async function run({half, key, kept}: Job): Promise<void> {
  const raw = unbase64(key);
  if (raw === null) throw new Error('The key is not base64.');
  const started_ms = performance.now();
  const response = await fetch('/v1/audit/export', {
    headers: {'Interlock-Browser': half}, credentials: 'same-origin', cache: 'no-store'});
  if (!response.ok || response.body === null) throw new Error(`HTTP ${response.status}`);
  const found = await verifyLog(splitLines(response.body), raw, kept, (records) => { send({state: 'reading', records}); });
  send({
    state: 'verified', records: found.records, signed: found.checkpoint.size, erased: found.erased,
    origin: found.checkpoint.origin, note: found.checkpoint.note, ms: performance.now() - started_ms,
  });
}

onmessage = (message: MessageEvent<Job>) => {
  run(message.data).catch((error: unknown) => {
    if (error instanceof TamperedLog) send({state: 'bad', kind: error.kind, seq: error.seq});
    else send({state: 'failed', reason: error instanceof Error ? error.message : String(error)});
  });
};
