/** Keyboard shortcuts, for keys pressed outside of input fields. Dialogs (the command palette and the help) are loaded when
 * they are opened. */
import {router} from '../router.svelte';

export type DialogKind = 'palette' | 'help';

const ROWS = 'main .cards a, main .records summary';
const SCROLL_RATIO = 0.8;

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], dialog') !== null;
}

/** Move to the next or previous row of a list. */
function moveFocus(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[at === -1 ? (by === 1 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

/** Focus a button of the approval, so that Enter presses it; while it is disabled, scroll on. */
function focusButton(button: string): void {
  const found = document.querySelector<HTMLButtonElement>(`.answer ${button}`);
  if (found === null) return;
  if (!found.disabled) {
    found.focus();
    return;
  }
  const fold = document.querySelector<HTMLButtonElement>('.change button[aria-expanded="false"]');
  if (fold !== null) fold.click();
  else scrollBy({top: innerHeight * SCROLL_RATIO});
}

/** Run the action of a key. `waiting` are the pending approvals in the order of the list. Returns the dialog to open; null
 * if the key opens none. */
export function handleShortcut(event: KeyboardEvent, waiting: readonly {id: string}[]): DialogKind | null {
  if (event.defaultPrevented || event.isComposing) return null;
  const isPalette = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k';
  if (!isPalette && (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target))) return null;
  const action = isPalette ? () => undefined : actionFor(event, waiting);
  if (action === undefined) return null;
  event.preventDefault();
  action();
  return isPalette ? 'palette' : event.key === '?' ? 'help' : null;
}

function actionFor(event: KeyboardEvent, waiting: readonly {id: string}[]): (() => void) | undefined {
  const id = router.approval;
  switch (event.key) {
    case 'j': case 'k': {
      const by = event.key === 'j' ? 1 : -1;
      if (id === null) return () => { moveFocus(by); };
      const to = waiting[waiting.findIndex((one) => one.id === id) + by];
      return to === undefined ? undefined : () => { router.go(`/console/a/${to.id}`); };
    }
    case 'o': return () => { if (document.activeElement?.matches(ROWS) === true) (document.activeElement as HTMLElement).click(); };
    case 'a': case 'd':
      if (id === null || event.repeat) return undefined;
      return () => { focusButton(event.key === 'a' ? '.yes' : '.no'); };
    case 'r': return id === null ? undefined : () => { document.getElementById('reason')?.focus(); };
    case 'u': return id === null ? undefined : () => { router.go('/console/'); };
    case '?': return () => undefined;
    default: return undefined;
  }
}
