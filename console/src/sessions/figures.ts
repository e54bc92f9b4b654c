import type {Session} from '../api';
import {say} from './words';

/** Tokens and estimated cost of a session, as the end of a line; "" if it has used nothing. */
export function usage(session: Session): string {
  const tokens = session.total_tokens ?? 0;
  const cost_usd = session.cost_usd ?? 0;
  return (tokens > 0 ? ` · ${say('tokens', tokens)}` : '') + (cost_usd > 0 ? ` · $${cost_usd.toFixed(2)} (${say('cost')})` : '');
}

/** Frames of a session that were lost, as the end of a line. */
export function lost(session: Session): string {
  const count = session.lost_frame_count ?? 0;
  return count > 0 ? ` · ${say('lost', count)}` : '';
}
