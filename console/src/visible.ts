/** Characters that a person cannot see, or that change how others are shown: C0 (without tab and newline), C1,
 * soft hyphen, combining grapheme joiner, Hangul fillers, Mongolian separators, blanks that are not U+0020, zero-width,
 * bidirectional, line separators, word joiners, variation selectors, tags, byte order mark, lone surrogates, private use. */
const HIDDEN = new RegExp(
  '[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f'
  + '\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff'
  + '\\ue000-\\uf8ff\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}\\u{f0000}-\\u{10ffff}]', 'gu');

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
