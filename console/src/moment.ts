/** Moments as this reader writes them, in the language of the page. */
import {i18n} from './i18n.svelte';

/** The browser's own form of the page's language, such as en-GB. */
export function locale(): string {
  return navigator.languages.find((one) => one.startsWith(i18n.language)) ?? i18n.language;
}

export function moment(at: string | number): string {
  return new Date(at).toLocaleString(locale());
}
