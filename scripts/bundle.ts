/** The program as one bundle with lazily loaded chunks, because memory and start time are features. */
import path from "node:path";
import { fileURLToPath } from "node:url";
import { type BuildResult, build, type Plugin } from "esbuild";
import { leanClientNode } from "./lean-client-node.ts";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** Of zod's languages only English, which is the one that its messages are in (a tenth of the agent's code). */
const leanZod: Plugin = {
  name: "lean-zod",
  setup: (build) => {
    build.onLoad({ filter: /[\\/]zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, ({ path: file }) => ({
      contents: 'export { default as en } from "./en.js";',
      resolveDir: path.dirname(file),
    }));
  },
};

/** Rejects when the sources cannot be bundled; esbuild has printed why. */
export function bundleInto(outdir: string): Promise<BuildResult<{ metafile: true }>> {
  return build({
    absWorkingDir: root,
    entryPoints: { metalbridge: "cli/main.ts", gate: "agent/gate/main.ts" },
    outdir,
    outExtension: { ".js": ".mjs" },
    chunkNames: "chunks/[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node22.19",
    sourcemap: true,
    sourcesContent: false,
    legalComments: "none",
    logLevel: "warning",
    metafile: true,
    plugins: [leanClientNode, leanZod],
    // Sources stay in memory as text. Names are kept, for stacks.
    minifyWhitespace: true,
    minifySyntax: true,
    // Some dependencies are CommonJS and call require() for Node's own modules.
    banner: {
      js: 'import { createRequire as createRequireHere } from "node:module"; const require = createRequireHere(import.meta.url);',
    },
  });
}
