/** The message for an unknown path, loaded with its view. */
import {words} from '../language.svelte';

const message = {en: 'Page not found.', ko: '그런 페이지가 없습니다.'};

/** Return the message of a key in the selected language. */
export function t(): string {
  return message[words.language];
}
