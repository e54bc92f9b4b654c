/** The console without a connection, and its notices. This worker keeps the page and its scripts and styles, and nothing
 * else; a request to the API is never answered here and never stored. It holds no login, so it cannot vote (J-18).
 *
 * A page is fetched from the gateway and comes from the cache only if the gateway does not answer, so a new build is
 * shown at the next load. Files below /console/assets/ have a hash of their content in their names: one from the cache
 * is the one that the page names. */

const PAGE = '/console/';
const ASSETS = '/console/assets/';
const CACHE = 'interlock-shell';
const PATIENCE_MS = 5_000;
/** More files are not kept: a build has fewer. */
const MAX_FILES = 200;

self.addEventListener('install', (event) => {
  event.waitUntil(fetch(PAGE, {cache: 'no-cache', credentials: 'omit'}).then(keep).then(() => self.skipWaiting()));
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
  const {title, body, approval_id: approval} = content(event.data);
  const path = /^[A-Za-z0-9_]{1,64}$/.test(approval) ? `${PAGE}a/${approval}` : PAGE;
  // The same approval replaces its first notice.
  event.waitUntil(self.registration.showNotification(title, {
    body, tag: path, icon: `${PAGE}icon.svg`, data: {path},
  }));
});

/** A notice opens its approval, and never answers it. */
self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(show(event.notification.data?.path ?? PAGE));
});

/** What a message says. A browser wants a notice for each, also for one that cannot be read. */
function content(data) {
  const sent = {title: 'Interlock', body: '', approval_id: ''};
  try {
    return {...sent, ...data?.json()};
  } catch {
    return sent;
  }
}

/** Show a view in a page that is open, which is logged in, or in a new one. */
async function show(path) {
  const open = await self.clients.matchAll({type: 'window'});
  const there = open.find((one) => one.focused) ?? open[0];
  if (there === undefined) return self.clients.openWindow(path);
  await there.focus().catch(() => undefined);
  return there.navigate(path);
}

/** Whether a path is a view of the console: every view is the same page. */
function isPage(path) {
  return path.startsWith(PAGE) && !path.slice(path.lastIndexOf('/')).includes('.');
}

async function page(event) {
  const kept = await (await caches.open(CACHE)).match(PAGE);
  const sent = fetch(event.request);
  // An answer that comes after the page from the cache was shown is kept for the next load.
  event.waitUntil(sent.then((answer) => keep(answer.clone())).catch(() => undefined));
  if (kept === undefined) return sent;
  const late = new Promise((resolve) => { setTimeout(resolve, PATIENCE_MS, kept); });
  return Promise.race([sent.then((answer) => answer.clone()), late]).catch(() => kept);
}

async function asset(request) {
  const cache = await caches.open(CACHE);
  const {pathname} = new URL(request.url);
  const kept = await cache.match(pathname);
  if (kept !== undefined) return kept;
  const sent = await fetch(request);
  if (sent.ok && (await cache.keys()).length < MAX_FILES) await cache.put(pathname, sent.clone());
  return sent;
}

/** Keep a page and the files that it names, and drop those of an earlier build. Without all of its files a page is not
 * kept. It is stored without the address that it was asked for, which may name an approval. */
async function keep(answer) {
  if (!answer.ok || answer.redirected || !(answer.headers.get('Content-Type') ?? '').startsWith('text/html')) return;
  const text = await answer.text();
  const cache = await caches.open(CACHE);
  const before = await (await cache.match(PAGE))?.text();
  if (before === text) return;
  const named = new Set(Array.from(text.matchAll(/(?:src|href)="(\/console\/assets\/[^"]+)"/g), ([, path]) => path));
  await cache.addAll([...named]);
  const headers = new Headers(answer.headers);
  for (const name of ['Content-Encoding', 'Content-Length']) headers.delete(name);
  await cache.put(PAGE, new Response(text, {headers}));
  const old = (await cache.keys()).filter(({url}) => {
    const {pathname} = new URL(url);
    return pathname !== PAGE && !named.has(pathname);
  });
  await Promise.all(old.map((one) => cache.delete(one)));
}
