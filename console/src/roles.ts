/** What the person who is logged in may do in the views that are loaded late. */
import {who} from './api';

function hasOne(...roles: string[]): boolean {
  return who()?.roles.some((role) => roles.includes(role)) ?? false;
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
