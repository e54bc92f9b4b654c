/** Worker scripts: loaded by one Trusted Types policy, and only from the console's own files (J-16). */
interface Factory { createPolicy(name: string, rules: object): {createScriptURL(url: string): unknown} }

export const SERVICE_WORKER = '/console/service-worker.js';
const ASSETS = '/console/assets/';

const policy = (globalThis as {trustedTypes?: Factory}).trustedTypes
  ?.createPolicy('interlock', {createScriptURL: (url: string) => {
    const {origin, pathname} = new URL(url, location.href);
    if (origin !== location.origin || (pathname !== SERVICE_WORKER && !pathname.startsWith(ASSETS))) {
      throw new TypeError(`${url} is not a script of this page.`);
    }
    return url;
  }});

/** Return the URL of a script of the console in the form that browsers with Trusted Types require.
 *
 * Raises: TypeError for any other URL. */
export function trustedScript(url: string): string {
  return (policy?.createScriptURL(url) ?? url) as string;
}

/** Register the service worker, which caches the page for offline use, if the browser allows it: on `localhost` and over
 * HTTPS. */
export async function keepShell(): Promise<void> {
  if (!('serviceWorker' in navigator)) return;
  await navigator.serviceWorker.register(trustedScript(SERVICE_WORKER), {scope: '/console/'}).catch(() => undefined);
}
