/** Draws what agents write, newest first, and rests between: however fast text arrives, most of the time is the page's.
 * Until the module that reads Markdown is loaded, and for what it refuses, text is drawn as it is. */
import {visible} from '../visible';

/** Blocks are drawn in one go until this much time has passed. */
const SLICE_MS = 8;
/** After drawing it rests so many times as long as that took. */
const REST = 4;

type Markup = typeof import('../markup');

const wanted = new Map<HTMLElement, string>();
let module: Markup | null = null;
let loading: Promise<void> | null = null;
let isDue = false;

/** Show a text in an element that holds nothing else, soon. */
export function draw(host: HTMLElement, text: string): void {
  if (!host.hasChildNodes()) plain(host, text);
  wanted.set(host, text);
  if (module === null) {
    loading ??= import('../markup').then((loaded) => { module = loaded; }, () => { loading = null; }).then(soon);
  } else {
    soon();
  }
}

/** Do not draw in this element any more. */
export function forget(host: HTMLElement): void {
  wanted.delete(host);
}

function soon(): void {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(slice);
}

function slice(): void {
  const began_ms = performance.now();
  for (const [host, text] of [...wanted].reverse()) {
    wanted.delete(host);
    one(host, text);
    host.dataset.drawn = '';
    if (performance.now() - began_ms > SLICE_MS) break;
  }
  setTimeout(() => {
    isDue = false;
    if (wanted.size > 0) soon();
  }, (performance.now() - began_ms) * REST);
}

function one(host: HTMLElement, text: string): void {
  if (module === null || text.length > module.MAX_MARKUP_CHARS) {
    plain(host, text);
    return;
  }
  try {
    host.replaceChildren(module.markup(text));
    host.className = 'block markup';
  } catch {
    plain(host, text);  // It is nested too deeply.
  }
}

function plain(host: HTMLElement, text: string): void {
  host.textContent = visible(text);
  host.className = 'block prose';
}
