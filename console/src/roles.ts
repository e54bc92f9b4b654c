/** What the logged-in user may do in the views that are loaded on demand. */
import {hasRole} from './api';

/** Whether this user may change keys, runners and rules. */
export function isAdmin(): boolean {
  return hasRole('admin', 'owner');
}

/** Whether this user may read the audit log. */
export function isAuditor(): boolean {
  return hasRole('auditor', 'admin', 'owner');
}

/** Whether this user may submit commands. */
export function mayWrite(): boolean {
  return hasRole('operator', 'admin', 'owner');
}

/** Whether this user may replay rules on recorded calls. */
export function mayReplay(): boolean {
  return hasRole('operator', 'auditor', 'admin', 'owner');
}
