/** `npm run build`: the bundle into dist/. */
import { existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { bundleInto } from "./bundle/bundle.ts";
import { bundleConsoleInto } from "./bundle/console.ts";
import { root } from "./project/root.ts";

const started = performance.now();
const fresh = path.join(root, `dist.${process.pid}.new`);

// esbuild has printed what is wrong; its stack would say nothing more.
const result = await bundleInto(fresh).catch(() => process.exit(1));

await bundleConsoleInto(path.join(fresh, "console"));

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
