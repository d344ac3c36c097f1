/** `npm run build`: the program as one bundle with lazily loaded chunks, because memory and start time are features. */
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { leanClientNode } from "./lean-client-node.ts";

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const started = performance.now();
const fresh = path.join(root, `dist.${process.pid}.new`);

// esbuild has printed what is wrong; its stack would say nothing more.
const result = await build({
  absWorkingDir: root,
  entryPoints: { metalbridge: "cli/main.ts" },
  outdir: fresh,
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
  plugins: [leanClientNode],
  // Some dependencies are CommonJS and call require() for Node's own modules.
  banner: {
    js: 'import { createRequire as createRequireHere } from "node:module"; const require = createRequireHere(import.meta.url);',
  },
}).catch(() => process.exit(1));

await replaceFolder(fresh, path.join(root, "dist"));
const bytes = Object.values(result.metafile.outputs).reduce((sum, output) => sum + output.bytes, 0);
const files = Object.keys(result.metafile.outputs).filter((name) => name.endsWith(".mjs")).length;
const ms = Math.round(performance.now() - started);
console.log(`dist: ${files} files, ${Math.round(bytes / 1024)} KiB with source maps, ${ms} ms`);

/** Old chunks of a running program stay readable until the moment of the swap. */
async function replaceFolder(from: string, to: string): Promise<void> {
  const old = `${to}.${process.pid}.old`;
  if (existsSync(to)) await rename(to, old);
  await rename(from, to);
  await rm(old, { recursive: true, force: true });
}
