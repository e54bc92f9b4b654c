/** The fewest steps from one list of lines to another: Myers, "An O(ND) difference algorithm and its variations", 1986. */

export interface Step {
  kind: 'added' | 'removed' | 'same';
  text: string;
}

/** Whether a path of so many steps comes to this diagonal from the one above, by adding a line, and not by removing one. */
function isAdded(furthest: Int32Array, middle: number, diagonal: number, count: number): boolean {
  return diagonal === -count || diagonal !== count
    && (furthest[middle + diagonal - 1] ?? 0) < (furthest[middle + diagonal + 1] ?? 0);
}

/** The lines of both lists in order, those of a change that are removed before those that are added; null if more than
 * `most` lines differ. */
export function steps(old: readonly string[], lines: readonly string[], most: number): Step[] | null {
  /** How far into `old` a path reaches on each diagonal, which is how many more lines it has taken of `old`. */
  const furthest = new Int32Array(2 * most + 3);
  const middle = most + 1;
  const before: Int32Array[] = [];
  for (let count = 0; count <= most; count += 1) {
    before.push(furthest.slice(middle - count - 1, middle + count + 2));
    for (let diagonal = -count; diagonal <= count; diagonal += 2) {
      let at = isAdded(furthest, middle, diagonal, count) ? furthest[middle + diagonal + 1] ?? 0
        : (furthest[middle + diagonal - 1] ?? 0) + 1;
      while (at < old.length && at - diagonal < lines.length && old[at] === lines[at - diagonal]) at += 1;
      furthest[middle + diagonal] = at;
      if (at >= old.length && at - diagonal >= lines.length) return walked(old, lines, before);
    }
  }
  return null;
}

/** Go back the path that reached the end of both. */
function walked(old: readonly string[], lines: readonly string[], before: readonly Int32Array[]): Step[] {
  const out: Step[] = [];
  let added: Step[] = [];
  let removed: Step[] = [];
  /** From the end on, so the added ones come first. */
  const change = (): void => {
    out.push(...added, ...removed);
    [added, removed] = [[], []];
  };
  let at = old.length;
  let diagonal = old.length - lines.length;
  for (let count = before.length - 1; count >= 0; count -= 1) {
    const furthest = before[count] ?? new Int32Array();
    const isFirst = count === 0;
    const wasAdded = !isFirst && isAdded(furthest, count + 1, diagonal, count);
    const from = isFirst ? 0 : furthest[count + 1 + diagonal + (wasAdded ? 1 : -1)] ?? 0;
    const start = wasAdded || isFirst ? from : from + 1;
    if (at > start) change();
    for (; at > start; at -= 1) out.push({kind: 'same', text: old[at - 1] ?? ''});
    if (wasAdded) added.push({kind: 'added', text: lines[at - diagonal - 1] ?? ''});
    else if (!isFirst) removed.push({kind: 'removed', text: old[at - 1] ?? ''});
    if (!isFirst) diagonal += wasAdded ? 1 : -1;
    at = from;
  }
  change();
  return out.reverse();
}
