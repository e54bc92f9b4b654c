/** Characters that a screen does not draw, draws as a blank, or uses to reorder others, as `command/card/text.py` has
 * them: controls without tab and newline, format characters, separators but U+0020, unassigned and private ones, lone
 * surrogates, letters that are drawn as blanks, the grapheme joiner, and variation selectors. */
const HIDDEN = /(?![\t\n ])[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/gu;

/** Write each of them as `<U+202E>`. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (found) =>
    `<U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}>`);
}

/** Whether a text has such a character. */
export function hasHidden(text: string): boolean {
  return visible(text) !== text;
}

/** JSON with each of them as an escape, so that it can be read and is still the same JSON. */
export function escaped(json: string): string {
  return json.replace(HIDDEN, (found) => Array.from({length: found.length}, (_, at) =>
    `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''));
}
