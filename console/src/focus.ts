/** The focus in a list to which a user comes back. */
import {router} from './router.svelte';

/** Focus the row of the view that was left, or the heading if the list does not have it (any more). Do nothing if there was no
 * previous view or an element of the page is focused already. */
export function restoreFocus(): void {
  if (router.previous === '' || document.activeElement?.matches('body, main') !== true) return;
  const row = document.querySelector<HTMLElement>(`.cards a[href="${CSS.escape(router.previous)}"]`);
  (row ?? document.querySelector<HTMLElement>('main h1'))?.focus();
}
