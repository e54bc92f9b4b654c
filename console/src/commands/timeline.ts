/** The steps of a command, from its status events, each with the audit record of the same change. */
import type {AuditLine, StatusEvent} from '../api';
import type {AuditRecord} from '../audit/record';

export interface Step {
  event: StatusEvent['event'];
  /** The state of the command, or of the approval that the step is about; null for what is neither. */
  state: NonNullable<StatusEvent['state'] | StatusEvent['approval_state']> | null;
  at: string;
  by: string | null;
  approval: string | null;
  text: string | null;
  /** The number of its audit record, if it has one and this person may read it. */
  seq: number | null;
}

/** Put both together: a record belongs to the step that it dates and whose new state it names. */
export function steps(events: readonly StatusEvent[], lines: readonly AuditLine[]): Step[] {
  const left = lines.map((line) => ({seq: line.seq, record: line.record as AuditRecord}));
  const found: Step[] = [];
  for (const event of events) {
    if (event.event === 'progress' && found.at(-1)?.event === 'progress') continue;
    const state = event.state ?? event.approval_state ?? null;
    const approval = event.approval_id ?? null;
    const at = left.findIndex(({record}) => record.at === event.at && record.meta.to === state
      && (record.approval_id ?? null) === approval);
    const seq = state === null || at < 0 ? null : left.splice(at, 1)[0]?.seq ?? null;
    found.push({event: event.event, state, at: event.at, by: event.by ?? null, approval, text: textOf(event), seq});
  }
  return found;
}

function textOf(event: StatusEvent): string | null {
  return event.message ?? event.notice?.message ?? (event.code ?? null);
}
