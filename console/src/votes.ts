/** The votes on an approval, and whether it waits for this user, in the wording of the command line. */
import {currentUser, type Approval} from './api';
import {i18n} from './i18n.svelte';
import {visible} from './visible';

interface Named {type: string; id: string}

function named(one: Named | null | undefined): string {
  return `${one?.type}:${one?.id}`;
}

/** The votes that were not withdrawn. */
export function votesOn(asked: Approval): NonNullable<Approval['votes']> {
  return (asked.votes ?? []).filter((one) => !one.withdrawn_at);
}

/** Whether a pending approval waits for this user: they have not voted on it, here or elsewhere, and are not its requester if
 * the requester's vote does not count. */
export function isMine(asked: Approval): boolean {
  const me = named(currentUser()?.principal);
  const isAsker = asked.self_approval === false && [asked.requested_by, asked.driver].some((one) => named(one) === me);
  return !isAsker && !votesOn(asked).some((one) => [one.by, one.driver].includes(me));
}

/** The number of yes votes, and of the required ones. */
export function tally(asked: Approval): string {
  const yes = votesOn(asked).filter((one) => one.decision === 'grant').length;
  const groups = (asked.groups ?? []).map((one) => i18n.get('ofThem').replace('{0}', String(one.min)).replace('{1}', visible(one.role)));
  return [i18n.get('tally').replace('{0}', String(yes)).replace('{1}', String(asked.required ?? 1)), ...groups].join(', ');
}

/** The status of an approval that waits for other approvers. */
export function waitsForAnother(asked: Approval): string {
  return `${tally(asked)}; ${i18n.get('another')}`;
}
