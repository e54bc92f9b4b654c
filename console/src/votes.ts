/** Whose votes an approval has, and whose it waits for: in the words of the command line. */
import {who, type Approval} from './api';
import {words} from './language.svelte';
import {visible} from './visible';

interface Named {type: string; id: string}

function named(one: Named | null | undefined): string {
  return `${one?.type}:${one?.id}`;
}

/** The votes that were not withdrawn. */
export function votesOn(asked: Approval): NonNullable<Approval['votes']> {
  return (asked.votes ?? []).filter((one) => !one.withdrawn_at);
}

/** Whether a pending approval waits for this person: they have no vote on it, cast here or elsewhere, and did not ask for it
 * if such a vote does not count. */
export function isMine(asked: Approval): boolean {
  const me = named(who()?.principal);
  const isAsker = asked.self_approval === false && [asked.requested_by, asked.driver].some((one) => named(one) === me);
  return !isAsker && !votesOn(asked).some((one) => [one.by, one.driver].includes(me));
}

/** How many yes votes there are, of how many. */
export function tally(asked: Approval): string {
  const yes = votesOn(asked).filter((one) => one.decision === 'grant').length;
  const groups = (asked.groups ?? []).map((one) => words.get('ofThem').replace('{0}', String(one.min)).replace('{1}', visible(one.role)));
  return [words.get('tally').replace('{0}', String(yes)).replace('{1}', String(asked.required ?? 1)), ...groups].join(', ');
}

/** What an approval waits for that is not this person's any more. */
export function waitsForAnother(asked: Approval): string {
  return `${tally(asked)}; ${words.get('another')}`;
}
