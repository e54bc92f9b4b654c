import type {Approval} from './api';
import type {MessageKey} from './messages';

/** What an approval's state amounts to. */
export const ENDED: Partial<Record<Approval['state'], MessageKey>> = {
  granted: 'allowed', consumed: 'allowed', denied: 'denied', expired: 'expired', void: 'void', superseded: 'superseded',
};
