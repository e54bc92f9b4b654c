/** Offline use and push notifications of the console. This worker caches the page with its scripts and styles and nothing
 * else; requests to the API are neither intercepted nor stored. It has no login, so it cannot vote (J-18).
 *
 * Pages are network-first: the cached page is used only if the gateway does not respond, so a new build is shown at the
 * next load. Files below /console/assets/ are cache-first, because their names contain a hash of their content. */

const PAGE = '/console/';
const ASSETS = '/console/assets/';
const CACHE = 'interlock-shell';
/** The cached page is used if the gateway does not respond within this time. */
const NETWORK_TIMEOUT_MS = 5_000;
/** The maximum number of cached files; a build has fewer. */
const MAX_FILES = 200;

self.addEventListener('install', (event) => {
  event.waitUntil(fetch(PAGE, {cache: 'no-cache', credentials: 'omit'}).then(cachePage).then(() => self.skipWaiting()));
});

self.addEventListener('activate', (event) => { event.waitUntil(self.clients.claim()); });

self.addEventListener('fetch', (event) => {
  const {request} = event;
  const {origin, pathname} = new URL(request.url);
  if (request.method !== 'GET' || origin !== self.location.origin) return;
  if (pathname.startsWith(ASSETS)) event.respondWith(asset(request));
  else if (request.mode === 'navigate' && isPage(pathname)) event.respondWith(page(event));
});

self.addEventListener('push', (event) => {
  const {title, body, approval_id: approval} = parsed(event.data);
  const path = /^[A-Za-z0-9_]{1,64}$/.test(approval) ? `${PAGE}a/${approval}` : PAGE;
  // A later notification about an approval replaces the first.
  event.waitUntil(self.registration.showNotification(title, {
    body, tag: path, icon: `${PAGE}icon.svg`, data: {path},
  }));
});

/** A notification opens its approval, and never votes. */
self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(openPath(event.notification.data?.path ?? PAGE));
});

/** Parse a push message. Browsers require a notification for each message, even if it is malformed. */
function parsed(data) {
  const defaults = {title: 'Interlock', body: '', approval_id: ''};
  try {
    return {...defaults, ...data?.json()};
  } catch {
    return defaults;
  }
}

/** Open a path in an open page, which is logged in, or in a new one. */
async function openPath(path) {
  const open = await self.clients.matchAll({type: 'window'});
  const client = open.find((one) => one.focused) ?? open[0];
  if (client === undefined) return self.clients.openWindow(path);
  await client.focus().catch(() => undefined);
  return client.navigate(path);
}

/** Whether a path is a view of the console; all views are the same page. */
function isPage(path) {
  return path.startsWith(PAGE) && !path.slice(path.lastIndexOf('/')).includes('.');
}

async function page(event) {
  const cached = await (await caches.open(CACHE)).match(PAGE);
  const fetched = fetch(event.request);
  // A response that arrives after the timeout is cached for the next load.
  event.waitUntil(fetched.then((response) => cachePage(response.clone())).catch(() => undefined));
  if (cached === undefined) return fetched;
  const timeout = new Promise((resolve) => { setTimeout(resolve, NETWORK_TIMEOUT_MS, cached); });
  return Promise.race([fetched.then((response) => response.clone()), timeout]).catch(() => cached);
}

async function asset(request) {
  const cache = await caches.open(CACHE);
  const {pathname} = new URL(request.url);
  const cached = await cache.match(pathname);
  if (cached !== undefined) return cached;
  const response = await fetch(request);
  if (response.ok && (await cache.keys()).length < MAX_FILES) await cache.put(pathname, response.clone());
  return response;
}

/** Cache a page with all files that it references, and delete those of an earlier build. If a file cannot be loaded, the
 * page is not cached. It is stored without its URL, which may contain an approval's id. */
async function cachePage(response) {
  if (!response.ok || response.redirected || !(response.headers.get('Content-Type') ?? '').startsWith('text/html')) return;
  const text = await response.text();
  const cache = await caches.open(CACHE);
  const before = await (await cache.match(PAGE))?.text();
  if (before === text) return;
  const files = new Set(Array.from(text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g), ([, path]) => path));
  await cache.addAll([...files]);
  const headers = new Headers(response.headers);
  for (const name of ['Content-Encoding', 'Content-Length']) headers.delete(name);
  await cache.put(PAGE, new Response(text, {headers}));
  const old = (await cache.keys()).filter(({url}) => {
    const {pathname} = new URL(url);
    return pathname !== PAGE && !files.has(pathname);
  });
  await Promise.all(old.map((one) => cache.delete(one)));
}
