/** Elements near the viewport, observed by one shared IntersectionObserver. */

/** An element within this distance of the viewport is near it. */
const MARGIN = '1500px 0px';

type Changed = (isNear: boolean, height_px: number) => void;

const watched = new WeakMap<Element, Changed>();
let observer: IntersectionObserver | null = null;

/** Call `changed` with whether an element is near the viewport, and with its height, now and at each change. Returns a
 * function that stops it. */
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
