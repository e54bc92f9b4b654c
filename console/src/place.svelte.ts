/** Which view the URL names: `/console/` is the inbox, `/console/a/ID` one approval, others are in `views`. */
const APPROVAL = /^\/console\/a\/([A-Za-z0-9_]{1,64})$/;

class Place {
  path = $state(location.pathname);
  search = $state(location.search);
  /** The path before the last navigation within the page; "" before the first one. */
  previous = '';
  /** The gateway has another build than this page's: the next view is loaded with its page. */
  stale = $state(false);
  approval = $derived(APPROVAL.exec(this.path)?.[1] ?? null);

  go(path: string, {keepScroll = false} = {}): void {
    if (this.stale) return location.assign(path);
    history.pushState(null, '', path);
    this.read();
    if (!keepScroll) scrollTo(0, 0);
  }

  /** Follow the browser's address. */
  read(): void {
    this.previous = this.path;
    this.path = location.pathname;
    this.search = location.search;
  }
}

export const place = new Place();
addEventListener('popstate', () => { place.read(); });

/** Go where a link leads without a new page, unless it is to open elsewhere. */
export function follow(event: MouseEvent): void {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  place.go((event.currentTarget as HTMLAnchorElement).pathname);
}

/** Take the login code out of the URL, so that it is in no history entry and no screenshot. */
export function takeCode(): string {
  const code = location.hash.slice(1);
  if (code !== '') history.replaceState(null, '', location.pathname + location.search);
  return code;
}
