import {svelte} from '@sveltejs/vite-plugin-svelte';
import {defineConfig} from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [svelte({compilerOptions: {css: 'external', discloseVersion: false, runes: true}})],
  build: {
    outDir: '../src/interlock/console_assets',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    // The page's script contains the name of each file to preload: styles alone, since no view may appear without
    // its own.
    modulePreload: {polyfill: false, resolveDependencies: (_, needed) => needed.filter((one) => one.endsWith('.css'))},
    reportCompressedSize: false,
    target: 'es2022',
    // The page's script contains the name of each file, and hashes do not compress.
    rolldownOptions: {output: {
      // One file compresses better than several: one for the first load, one for the inbox with what other lists
      // share, and one for the few hundred bytes that most views share.
      codeSplitting: {includeDependenciesRecursively: false, groups: [
        {name: 'index', tags: ['$initial']},
        {name: 'Inbox', test: /src\/(?:Inbox|inboxMessages|Tabs|VirtualList|VirtualChunk|focus|viewport)\b/},
        {name: 'moment', test: /src\/(?:moment|waitsFor|policy\/conditions)\.ts$/},
      ]},
      entryFileNames: 'assets/[name]-[hash:6].js', chunkFileNames: 'assets/[name]-[hash:6].js', assetFileNames: 'assets/[name]-[hash:6][extname]',
    }},
  },
});
