/** Keeps what is read at its place on the screen while something is put in above it. Browsers do so by themselves, but some
 * not at all, and none at the very top. */

/** An element that is on the screen, and how far below the top of it. */
export interface Anchor {
  element: Element;
  top_px: number;
}

/** So many are remembered: one that is replaced meanwhile is of no use. */
const ANCHORS = 8;

/** Find the first of a parent's children that ends below the top of the screen. They follow each other downwards. */
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

/** Find what is on the screen of a list, whose items are the children of its stretches. */
export function anchors(list: Element): Anchor[] {
  const found: Anchor[] = [];
  const stretch = firstShown(list);
  if (stretch === undefined) return found;
  for (let item = firstShown(stretch); item !== null && item !== undefined && found.length < ANCHORS; item = item.nextElementSibling ?? undefined) {
    found.push({element: item, top_px: item.getBoundingClientRect().top});
  }
  return [...found, {element: stretch, top_px: stretch.getBoundingClientRect().top}];
}

/** For so many frames of the screen, what was put in gets its height. */
const SETTLING_FRAMES = 30;

/** Scroll so that the first of these that is still there is where it was, until what was put in has its height or the
 * reader scrolls. */
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
