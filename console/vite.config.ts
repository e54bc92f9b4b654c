import {svelte} from '@sveltejs/vite-plugin-svelte';
import {defineConfig} from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [svelte({compilerOptions: {css: 'external', discloseVersion: false, runes: true}})],
  build: {
    outDir: '../src/interlock/console_assets',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    // A view's own script is loaded at once anyway: in the list of what it needs its name would only cost bytes.
    modulePreload: {polyfill: false, resolveDependencies: (file, needed) => needed.filter((one) => one !== file)},
    reportCompressedSize: false,
    target: 'es2022',
    // Every file's name stands in the page's script, and its hash cannot be compressed.
    rolldownOptions: {output: {
      // What the page itself needs is one file, which zips better than several. What several views share is a few hundred
      // bytes: one file, with one name and one request.
      codeSplitting: {includeDependenciesRecursively: false, groups: [{name: 'index', tags: ['$initial']}, {name: 'moment', test: /src\/(?:moment|policy\/conditions)\.ts$/}]},
      entryFileNames: 'assets/[name]-[hash:6].js', chunkFileNames: 'assets/[name]-[hash:6].js', assetFileNames: 'assets/[name]-[hash:6][extname]',
    }},
  },
});
