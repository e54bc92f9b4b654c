import type {Session} from '../api';
import type {components} from '../api.generated';
import {visible} from '../visible';
import {t} from './messages';

/** Tokens and estimated cost of a session, as the end of a line; "" if it has used nothing. */
export function usage(session: Session): string {
  const tokens = session.total_tokens ?? 0;
  const cost_usd = session.cost_usd ?? 0;
  return (tokens > 0 ? ` · ${t('tokens', tokens)}` : '') + (cost_usd > 0 ? ` · $${cost_usd.toFixed(2)} (${t('cost')})` : '');
}

/** Frames of a session that were lost, as the end of a line. */
export function lost(session: Session): string {
  const count = session.lost_frame_count ?? 0;
  return count > 0 ? ` · ${t('lost', count)}` : '';
}

/** The mode and the thinking that an agent is set to, as the end of a line; "" of one that lets neither be chosen. */
export function chosen(settings: components['schemas']['AgentSettings'] | null): string {
  const one = (name: 'mode' | 'level', setting: components['schemas']['AgentSetting'] | null | undefined): string =>
    setting?.current ? ` · ${t(name)}: ${visible(setting.values?.find((each) => each.id === setting.current)?.name ?? setting.current)}` : '';
  return one('mode', settings?.mode) + one('level', settings?.thinking);
}
