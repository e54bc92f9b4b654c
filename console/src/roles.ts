/** What the person who is logged in may do in the views that are loaded late. */
import {hasOne} from './api';

/** Whether this person may change keys, runners and rules. */
export function isAdmin(): boolean {
  return hasOne('admin', 'owner');
}

/** Whether this person may read the audit log. */
export function isAuditor(): boolean {
  return hasOne('auditor', 'admin', 'owner');
}

/** Whether this person may submit commands. */
export function mayWrite(): boolean {
  return hasOne('operator', 'admin', 'owner');
}

/** Whether this person may replay rules on recorded calls. */
export function mayReplay(): boolean {
  return hasOne('operator', 'auditor', 'admin', 'owner');
}
