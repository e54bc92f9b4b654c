/** Which view the URL names: `/console/` is the inbox, `/console/a/ID` one approval. */
const APPROVAL = /^\/console\/a\/([A-Za-z0-9_]{1,64})$/;

class Place {
  path = $state(location.pathname);
  approval = $derived(APPROVAL.exec(this.path)?.[1] ?? null);

  go(path: string): void {
    history.pushState(null, '', path);
    this.path = path;
    scrollTo(0, 0);
  }
}

export const place = new Place();
addEventListener('popstate', () => { place.path = location.pathname; });

/** Take the login code out of the URL, so that it is in no history entry and no screenshot. */
export function takeCode(): string {
  const code = location.hash.slice(1);
  if (code !== '') history.replaceState(null, '', location.pathname);
  return code;
}
