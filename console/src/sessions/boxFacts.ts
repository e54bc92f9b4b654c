/** What an agent's box holds, as rules of policy name it. */
import type {components} from '../api.generated';

export type Box = components['schemas']['Box'];

function parts(box: Box | null | undefined): string[] {
  if (box == null || box.walls === 'none') return [];
  return ['walls', ...(box.limited ? ['writes'] : []), ...((box.network ?? 'all') === 'all' ? [] : ['network']),
    ...(box.programs ? ['programs'] : []), ...(box.staged ? ['staged'] : [])];
}

/** What holds wherever one of these offers is taken: the gateway chooses the runner. */
export function heldByAll(offers: readonly {box?: Box | null}[]): string[] {
  const [first, ...others] = offers.map((one) => parts(one.box));
  return (first ?? []).filter((part) => others.every((other) => other.includes(part)));
}
