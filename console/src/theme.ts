/** The color scheme of this browser: light, dark, or the system's. */
const STORED = 'interlock.theme';
export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = typeof THEMES[number];

export function theme(): Theme {
  return THEMES.find((one) => one === localStorage.getItem(STORED)) ?? 'system';
}

/** Apply the selected color scheme. */
export function applyTheme(): void {
  document.documentElement.dataset.theme = theme();
}

export function chooseTheme(chosen: Theme): void {
  localStorage.setItem(STORED, chosen);
  applyTheme();
}
