/** The router: `/console/` is the inbox, `/console/a/ID` one approval, other views are in `views`. */
const APPROVAL = /^\/console\/a\/([A-Za-z0-9_]{1,64})$/;

class Router {
  path = $state(location.pathname);
  search = $state(location.search);
  /** The path before the last navigation within the page; "" before the first one. */
  previous = '';
  /** The gateway serves another build than this page's, so the next navigation loads a new page. */
  stale = $state(false);
  approval = $derived(APPROVAL.exec(this.path)?.[1] ?? null);

  go(path: string, {keepScroll = false} = {}): void {
    if (this.stale) return location.assign(path);
    history.pushState(null, '', path);
    this.read();
    if (!keepScroll) scrollTo(0, 0);
  }

  /** Update the state from the browser's URL. */
  read(): void {
    this.previous = this.path;
    this.path = location.pathname;
    this.search = location.search;
  }
}

export const router = new Router();
addEventListener('popstate', () => { router.read(); });

/** Navigate to a link's target within this page, unless a modifier key requests a new tab or window. */
export function follow(event: MouseEvent): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  router.go((event.currentTarget as HTMLAnchorElement).pathname);
}

/** Remove the login code from the URL and return it, so that it is in no history entry and no screenshot. */
export function takeCode(): string {
  const code = location.hash.slice(1);
  if (code !== '') history.replaceState(null, '', location.pathname + location.search);
  return code;
}
