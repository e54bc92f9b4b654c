/** Which elements are near the screen, by one observer for all. */

/** An element counts as near before it is seen, by so much. */
const MARGIN = '1500px 0px';

type Changed = (isNear: boolean, height_px: number) => void;

const watched = new WeakMap<Element, Changed>();
let observer: IntersectionObserver | null = null;

/** Call `changed` with whether an element is near the screen and its height then, now and whenever that changes. Returns what
 * ends it. */
export function watch(element: Element, changed: Changed): () => void {
  observer ??= new IntersectionObserver((seen) => {
    for (const one of seen) watched.get(one.target)?.(one.isIntersecting, one.boundingClientRect.height);
  }, {rootMargin: MARGIN});
  watched.set(element, changed);
  observer.observe(element);
  return () => {
    watched.delete(element);
    observer?.unobserve(element);
  };
}
