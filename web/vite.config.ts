/** How `npm run build` bundles the console into dist/console. */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { CONSOLE_PATH } from "../src/console/protocol.ts";

/** Paths of the server within those of the pages. */
const API = `^${CONSOLE_PATH}/(session|rights|k8s|stream|logs|gateway(?=/)|gateway-keys?|undo|catalog|sign-in|signed-in)\\b`;
const server = process.env.METALBRIDGE_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
  root: import.meta.dirname,
  base: `${CONSOLE_PATH}/`,
  plugins: [react()],
  // The server puts a fresh nonce in its place with every page load.
  html: { cspNonce: "__NONCE__" },
  build: {
    target: "es2023",
    manifest: true,
    // A data: URL of a font or script would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  worker: { format: "es" },
  // `npm run web` serves the sources, and asks a running `metalbridge server` for everything else.
  server: {
    proxy: {
      [API]: { target: server, changeOrigin: false },
      "/api/v1/": { target: server, changeOrigin: false },
    },
  },
});
