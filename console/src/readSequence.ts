/** Detects stale responses of reads that overlap: the response to a later read may arrive first. Call the returned function
 * when a read begins; it returns a function that reports, when the response arrives, whether no later read has had its
 * response. */
export function readSequence(): () => () => boolean {
  let [begun, newest] = [0, 0];
  return () => {
    const mine = ++begun;
    return () => mine >= newest && (newest = mine) > 0;
  };
}
