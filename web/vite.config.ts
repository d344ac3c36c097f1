/** How `npm run build` bundles the console into dist/console. */
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { CONSOLE_PATH } from "../src/console/protocol.ts";

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
});
