import {mount} from 'svelte';

import App from './App.svelte';
import {keepShell} from './scripts';
import './style.css';

const target = document.getElementById('app');
if (target !== null) mount(App, {target});
void keepShell();
