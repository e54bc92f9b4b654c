import {svelte} from '@sveltejs/vite-plugin-svelte';
import {defineConfig} from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [svelte({compilerOptions: {css: 'external', runes: true}})],
  build: {
    outDir: '../src/interlock/console_assets',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: {polyfill: false},
    reportCompressedSize: false,
    target: 'es2022',
    // Every file's name stands in the page's script, and its hash cannot be compressed.
    rolldownOptions: {output: {
      entryFileNames: 'assets/[name]-[hash:6].js', chunkFileNames: 'assets/[name]-[hash:6].js', assetFileNames: 'assets/[name]-[hash:6][extname]',
    }},
  },
});
