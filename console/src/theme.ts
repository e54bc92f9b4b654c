/** Light, dark, or as the system has it: a choice of this browser. */
const STORED = 'interlock.theme';
export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = typeof THEMES[number];

export function theme(): Theme {
  return THEMES.find((one) => one === localStorage.getItem(STORED)) ?? 'system';
}

/** Show the page in the colours that were chosen. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}

export function chooseTheme(chosen: Theme): void {
  localStorage.setItem(STORED, chosen);
  applyTheme();
}
