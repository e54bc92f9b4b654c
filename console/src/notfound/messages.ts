/** The sentence of a page that there is not, loaded with it. */
import {words} from '../language.svelte';

const sentence = {en: 'There is no such page.', ko: '그런 페이지가 없습니다.'};

/** The sentence in the language of this reader. */
export function say(): string {
  return sentence[words.language];
}
