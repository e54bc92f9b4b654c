import {mount} from 'svelte';

import App from './App.svelte';
import {words} from './language.svelte';
import {keepShell} from './scripts';
import './style.css';
import {applyTheme} from './theme';

applyTheme();
const target = document.getElementById('app');
if (target !== null) void words.begin().then(() => { mount(App, {target}); });
void keepShell();
