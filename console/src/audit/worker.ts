/** Downloads the log and checks it beside the page, so that the page stays usable. */
import {unbase64} from './bytes';
import {linesOf} from './lines';
import {Bad, check, type Kind} from './logVerifier';

export interface Job {
  /** The header's half of this tab's login. */
  half: string;
  /** The key in base64. */
  key: string;
  kept: string | null;
}

export type Report =
  | {state: 'reading'; records: number}
  | {state: 'whole'; records: number; signed: number; erased: number; origin: string; note: string; ms: number}
  | {state: 'bad'; kind: Kind; seq: number | null}
  | {state: 'failed'; reason: string};

function send(report: Report): void {
  postMessage(report);
}

async function run({half, key, kept}: Job): Promise<void> {
  const raw = unbase64(key);
  if (raw === null) throw new Error('The key is not base64.');
  const began = performance.now();
  const answer = await fetch('/v1/audit/export', {
    headers: {'Interlock-Browser': half}, credentials: 'same-origin', cache: 'no-store'});
  if (!answer.ok || answer.body === null) throw new Error(`HTTP ${answer.status}`);
  const found = await check(linesOf(answer.body), raw, kept, (records) => { send({state: 'reading', records}); });
  send({
    state: 'whole', records: found.records, signed: found.checkpoint.size, erased: found.erased,
    origin: found.checkpoint.origin, note: found.checkpoint.note, ms: performance.now() - began,
  });
}

onmessage = (message: MessageEvent<Job>) => {
  run(message.data).catch((error: unknown) => {
    if (error instanceof Bad) send({state: 'bad', kind: error.kind, seq: error.seq});
    else send({state: 'failed', reason: error instanceof Error ? error.message : String(error)});
  });
};
