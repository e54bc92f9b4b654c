import {svelte} from '@sveltejs/vite-plugin-svelte';
import {defineConfig} from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [svelte({compilerOptions: {css: 'external'}})],
  build: {
    outDir: '../src/interlock/console_assets',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: {polyfill: false},
    reportCompressedSize: false,
    target: 'es2022',
  },
});
