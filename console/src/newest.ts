/** The order of reads that overlap: the answer to a later one may come first, and what was asked for before it is then
 * out of date. The first call of what is returned begins a read, that of what this returns says whether its answer is
 * still the newest. */
export function inOrder(): () => () => boolean {
  let [begun, shown] = [0, 0];
  return () => {
    const mine = ++begun;
    return () => mine >= shown && (shown = mine) > 0;
  };
}
