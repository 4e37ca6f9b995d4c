import { defineConfig } from 'vite';

// `server` hands queries on to Prometheus, so that the page and the data have one origin.
export default defineConfig({
  esbuild: { jsx: 'automatic' },
  define: { 'process.env': {}, global: 'globalThis' },
  build: { chunkSizeWarningLimit: 100000, minify: false },
});
