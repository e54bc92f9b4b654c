/** The one place where an agent's text becomes markup (J-16). Markdown is read by marked, with HTML in it left as text;
 * what comes of that is checked by DOMPurify, which returns nodes: no text is put into the page as HTML.
 *
 * Loaded late: the page of an approval shows plain text and diffs only. */
import createDOMPurify, {type Config} from 'dompurify';
import {Marked} from 'marked';

import {visible} from './visible';

/** Characters of the longest text that is read as Markdown: the time that marked needs for a hostile text grows with
 * the square of its length (20,000 take less than a second, 50,000 six). */
export const MAX_MARKUP_CHARS = 20_000;

const POLICY = 'interlock-markup';
const LINK = /^(?:https?:\/\/|mailto:)./i;
const REL = 'noopener noreferrer nofollow';
const TAGS = ['a', 'blockquote', 'br', 'code', 'del', 'em', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre',
  'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'];

interface Factory {
  createPolicy: (name: string, rules: {createHTML: (text: string) => string; createScriptURL: (url: string) => never}) =>
    NonNullable<Config['TRUSTED_TYPES_POLICY']>;
}

const purify = createDOMPurify(window);
const factory = (window as {trustedTypes?: Factory}).trustedTypes;
const policy = factory?.createPolicy(POLICY, {
  createHTML: (text) => text,  // For the document that DOMPurify parses it in, where nothing runs.
  createScriptURL: () => { throw new TypeError('No script is loaded for markup.'); },
});

purify.setConfig({
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ['align', 'href', 'start'],
  ALLOWED_NAMESPACES: ['http://www.w3.org/1999/xhtml'],
  ALLOWED_URI_REGEXP: LINK,
  ADD_URI_SAFE_ATTR: ['align', 'start'],  // Every other value must be a link.
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
  ...(policy === undefined ? {} : {TRUSTED_TYPES_POLICY: policy}),
});
purify.addHook('afterSanitizeAttributes', (node) => {
  if (!node.hasAttribute('href')) return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', REL);
});

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

/** A link, or what it would lead to as text if it is not to a page or an address. */
function linked(href: string, words: string): string {
  return LINK.test(href) ? `<a href="${escaped(href)}">${words}</a>` : `${words} (${escaped(href)})`;
}

/** The level of the heading before: levels go down one by one, below the page's own first. */
let level = 1;

const markdown = new Marked({
  gfm: true,
  tokenizer: {html: () => undefined, tag: () => undefined},
  renderer: {
    heading({tokens, depth}) {
      level = Math.min(depth + 1, level + 1, 6);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
    link({href, tokens}) { return linked(href, this.parser.parseInline(tokens)); },
    image({href, text}) { return linked(href, escaped(text === '' ? href : text)); },
    code({text}) { return `<pre><code>${escaped(text)}</code></pre>`; },
    checkbox({checked}) { return checked ? '☑ ' : '☐ '; },
  },
});

/** Markup as nodes that cannot run, load or submit anything. */
export function clean(html: string): DocumentFragment {
  return purify.sanitize(html) as unknown as DocumentFragment;
}

/** Name the place that a link leads to, unless its words are that place. */
function named(link: HTMLAnchorElement): void {
  const to = link.protocol === 'mailto:' ? link.pathname : link.host;
  const words = (link.textContent ?? '').trim();
  if (words !== to && words !== link.href && words !== link.getAttribute('href')) link.after(` (${visible(to)})`);
}

/** Read Markdown of at most MAX_MARKUP_CHARS.
 *
 * Raises: RangeError if it is longer, or nested too deeply. */
export function markup(text: string): DocumentFragment {
  if (text.length > MAX_MARKUP_CHARS) throw new RangeError('The text is too long to be read as Markdown.');
  level = 1;
  const made = clean(markdown.parse(visible(text), {async: false}));
  const texts = document.createTreeWalker(made, NodeFilter.SHOW_TEXT);
  // Entities are read after the text was made visible.
  while (texts.nextNode()) (texts.currentNode as Text).data = visible((texts.currentNode as Text).data);
  made.querySelectorAll('a').forEach(named);
  return made;
}
