/** Scroll anchoring: keeps the visible content in position while content is inserted above it. Some browsers do not support
 * this, and none does it at the very top. */

/** A visible element, and its distance from the top of the viewport. */
export interface Anchor {
  element: Element;
  top_px: number;
}

/** The number of anchors that are stored, because some can be replaced in the meantime. */
const ANCHORS = 8;

/** Return the first child that ends below the top of the viewport, by binary search: children are in vertical order. */
function firstShown(parent: Element): Element | undefined {
  const children = parent.children;
  let [low, high] = [0, children.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((children[middle]?.getBoundingClientRect().bottom ?? 0) <= 0) low = middle + 1;
    else high = middle;
  }
  return children[low];
}

/** Return the visible items of a virtual list, which are the children of its chunks. */
export function anchors(list: Element): Anchor[] {
  const found: Anchor[] = [];
  const chunk = firstShown(list);
  if (chunk === undefined) return found;
  for (let item = firstShown(chunk); item !== null && item !== undefined && found.length < ANCHORS; item = item.nextElementSibling ?? undefined) {
    found.push({element: item, top_px: item.getBoundingClientRect().top});
  }
  return [...found, {element: chunk, top_px: chunk.getBoundingClientRect().top}];
}

/** The number of animation frames in which inserted content gets its height. */
const SETTLING_FRAMES = 30;

/** Scroll so that the first anchor that still exists keeps its position, until inserted content has its height or the user
 * scrolls. */
export function hold(kept: readonly Anchor[], left = SETTLING_FRAMES, at_px = scrollY): void {
  const one = kept.find(({element}) => element.isConnected);
  if (one === undefined) return;
  const moved_px = one.element.getBoundingClientRect().top - one.top_px;
  if (Math.abs(moved_px) >= 1) {
    if (left < SETTLING_FRAMES && scrollY !== at_px) return;
    scrollBy(0, moved_px);
  }
  const now_px = scrollY;
  if (left > 0) requestAnimationFrame(() => { hold(kept, left - 1, now_px); });
}
