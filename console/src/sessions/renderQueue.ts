/** Draws what agents write, newest first, and rests between: however fast text arrives, most of the time is the page's.
 * Until the module that reads Markdown is loaded, and for what it refuses, text is drawn as it is; of what has grown only
 * the new part, since replacing a long text takes longer each time. */
import {visible} from '../visible';

/** Blocks are drawn in one go until this much time has passed. */
const SLICE_MS = 8;
/** After drawing it rests so many times as long as that and its layout took. */
const REST = 4;
/** About so many characters of text as it is are one element: the browser lays out no more of it again. */
const STRETCH_CHARS = 4_000;

type Markup = typeof import('../markup');

const wanted = new Map<HTMLElement, {text: string; isPlain: boolean}>();
/** What of elements that hold a text as it is was put in. */
const held = new WeakMap<HTMLElement, string>();
let module: Markup | null = null;
let loading: Promise<void> | null = null;
let isDue = false;

/** Show a text in an element that holds nothing else, soon: as Markdown unless it is to be plain. */
export function draw(host: HTMLElement, text: string, isPlain: boolean): void {
  if (!host.hasChildNodes()) plain(host, text);
  wanted.set(host, {text, isPlain});
  if (module === null && !isPlain) {
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
  for (const [host, {text, isPlain}] of [...wanted].reverse()) {
    wanted.delete(host);
    one(host, text, isPlain);
    host.dataset.drawn = '';
    if (performance.now() - began_ms > SLICE_MS) break;
  }
  void document.body.offsetHeight;  // The layout is done here, and counted.
  setTimeout(() => {
    isDue = false;
    if (wanted.size > 0) soon();
  }, (performance.now() - began_ms) * REST);
}

function one(host: HTMLElement, text: string, isPlain: boolean): void {
  if (module === null || isPlain || text.length > module.MAX_MARKUP_CHARS) {
    plain(host, text);
    return;
  }
  try {
    host.replaceChildren(module.markup(text));
    host.className = 'block markup';
    held.delete(host);
  } catch {
    plain(host, text);  // It is nested too deeply.
  }
}

function plain(host: HTMLElement, text: string): void {
  const before = held.get(host);
  const grows = before !== undefined && text.startsWith(before);
  if (!grows) {
    host.replaceChildren();
    host.className = 'block prose';
  }
  append(host, grows ? text.slice(before.length) : text);
  held.set(host, text);
}

/** Put text behind what is there. A stretch ends with a line, where another element begins another line. */
function append(host: HTMLElement, text: string): void {
  let stretch = host.lastElementChild?.firstChild as Text | null ?? null;
  let gathered = '';
  for (const line of text.split(/(?<=\n)/)) {
    const isFull = stretch === null || stretch.length + gathered.length >= STRETCH_CHARS
      && (gathered === '' ? stretch.data : gathered).endsWith('\n');
    if (isFull) {
      stretch?.appendData(visible(gathered));
      gathered = '';
      stretch = document.createTextNode('');
      host.appendChild(document.createElement('div')).append(stretch);
    }
    gathered += line;
  }
  stretch?.appendData(visible(gathered));
}
