/** Renders agents' text in time slices, newest first, so that the page stays responsive however fast text arrives. Until
 * the Markdown module is loaded, and for text that it rejects, text is rendered unformatted; text that has grown is then
 * appended to, because replacing a long text takes longer each time. */
import {visible} from '../visible';

/** The time budget of one slice. */
const SLICE_MS = 8;
/** The pause after a slice, as a multiple of the time that it and its layout took. */
const PAUSE_RATIO = 4;
/** About this many characters of unformatted text are one element, which limits what is laid out again. */
const CHUNK_CHARS = 4_000;

type Markup = typeof import('../markup');

const wanted = new Map<HTMLElement, {text: string; isPlain: boolean}>();
/** The text that elements with unformatted text contain. */
const held = new WeakMap<HTMLElement, string>();
let module: Markup | null = null;
let loading: Promise<void> | null = null;
let isDue = false;

/** Render a text soon in an element that contains nothing else: as Markdown unless `isPlain`. */
export function draw(host: HTMLElement, text: string, isPlain: boolean): void {
  if (!host.hasChildNodes()) plain(host, text);
  wanted.set(host, {text, isPlain});
  if (module === null && !isPlain) {
    loading ??= import('../markup').then((loaded) => { module = loaded; }, () => { loading = null; }).then(soon);
  } else {
    soon();
  }
}

/** Remove an element from the queue. */
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
  }, (performance.now() - began_ms) * PAUSE_RATIO);
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

/** Append text. A chunk ends with a line, because each element begins a new one. */
function append(host: HTMLElement, text: string): void {
  let chunk = host.lastElementChild?.firstChild as Text | null ?? null;
  let gathered = '';
  for (const line of text.split(/(?<=\n)/)) {
    const isFull = chunk === null || chunk.length + gathered.length >= CHUNK_CHARS
      && (gathered === '' ? chunk.data : gathered).endsWith('\n');
    if (isFull) {
      chunk?.appendData(visible(gathered));
      gathered = '';
      chunk = document.createTextNode('');
      host.appendChild(document.createElement('div')).append(chunk);
    }
    gathered += line;
  }
  chunk?.appendData(visible(gathered));
}
