/** An esbuild plugin: of zod's languages only English, which is the one that its messages are in (a tenth of the agent's code). */
import path from "node:path";
import type { Plugin } from "esbuild";

export const leanZod: Plugin = {
  name: "lean-zod",
  setup: (build) => {
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path: file }) => ({
      contents: 'export { default as en } from "./en.js";',
      resolveDir: path.dirname(file),
    }));
  },
};
