/** Whom sessions and tasks wait for, by their pending approvals. */
import type {Approval} from './api';
import {isMine} from './votes';

/** Return the ids of the sessions or tasks with an approval that waits for this user, and of those whose approvals all wait
 * for other people. */
export function waitsFor(approvals: readonly Approval[], key: 'session_id' | 'command_id'): {user: Set<string>; others: Set<string>} {
  const [user, others] = [new Set<string>(), new Set<string>()];
  for (const one of approvals) {
    const id = one[key];
    if (id) (isMine(one) ? user : others).add(id);
  }
  for (const id of user) others.delete(id);
  return {user, others};
}
