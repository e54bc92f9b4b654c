import {mount} from 'svelte';

import App from './App.svelte';
import {i18n} from './i18n.svelte';
import {keepShell} from './scripts';
import './style.css';
import {applyTheme} from './theme';

const STYLE_RETRY_MS = 2_000;

applyTheme();
// Vite counts a style sheet that could not be loaded as loaded, and the view appears without it once its script is there.
addEventListener('error', ({target}) => {
  if (target instanceof HTMLLinkElement) setTimeout(() => { target.replaceWith(target.cloneNode()); }, STYLE_RETRY_MS);
}, true);
const target = document.getElementById('app');
if (target !== null) void i18n.begin().then(() => { mount(App, {target}); });
void keepShell();
