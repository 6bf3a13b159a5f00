import { defineConfig } from "vite";

export default defineConfig({
  // Addresses are relative, so that the page works in any directory of any server.
  base: "./",
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  worker: { format: "es" },
  plugins: [
    {
      // While developing, the page asks Vite whether something changed.
      name: "requests-to-vite",
      apply: "serve",
      transformIndexHtml: (html) => html.replace("worker-src 'self'", "worker-src 'self'; connect-src 'self'"),
    },
  ],
});
