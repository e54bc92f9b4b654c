/** Builds the steps of a command from its status events, each with the audit record of the same change. */
import type {AuditLine, StatusEvent} from '../api';
import type {AuditRecord} from '../audit/record';

export interface Step {
  event: StatusEvent['event'];
  /** The state of the command, or of the step's approval; null if the step changes neither. */
  state: NonNullable<StatusEvent['state'] | StatusEvent['approval_state']> | null;
  at: string;
  by: string | null;
  approval: string | null;
  text: string | null;
  /** The number of its audit record; null if there is none or this user may not read it. */
  seq: number | null;
}

/** Match status events and audit records: a record belongs to the step with the same time, new state and approval. */
export function timelineSteps(events: readonly StatusEvent[], lines: readonly AuditLine[]): Step[] {
  const unmatched = lines.map((line) => ({seq: line.seq, record: line.record as AuditRecord}));
  const steps: Step[] = [];
  for (const event of events) {
    if (event.event === 'progress' && steps.at(-1)?.event === 'progress') continue;
    const state = event.state ?? event.approval_state ?? null;
    const approval = event.approval_id ?? null;
    const at = unmatched.findIndex(({record}) => record.at === event.at && record.meta.to === state
      && (record.approval_id ?? null) === approval);
    const seq = state === null || at < 0 ? null : unmatched.splice(at, 1)[0]?.seq ?? null;
    steps.push({event: event.event, state, at: event.at, by: event.by ?? null, approval, text: textOf(event), seq});
  }
  return steps;
}

function textOf(event: StatusEvent): string | null {
  return event.message ?? event.notice?.message ?? (event.code ?? null);
}
