/** The message for an unknown path, loaded with its view. */
import {words} from '../language.svelte';

const sentence = {en: 'There is no such page.', ko: '그런 페이지가 없습니다.'};

/** Return the message of a key in the selected language. */
export function t(): string {
  return sentence[words.language];
}
