/** `npm run build`: the bundle into dist/; with `--release` also the archives into release/. */
import { existsSync, readFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { bundleInto } from "./bundle.ts";
import { buildRelease } from "./release/build-release.ts";
import { PLATFORMS, pinnedNode } from "./release/node.ts";

const { values } = parseArgs({
  options: {
    /** Archives, sums, bill of materials, install script, Homebrew formula, krew manifest. */
    release: { type: "boolean", default: false },
    /** Only these; comma-separated. */
    platforms: { type: "string", default: PLATFORMS.join(",") },
    /** Where the archives will be downloaded from. */
    "base-url": { type: "string", default: "" },
  },
});

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const started = performance.now();
const fresh = path.join(root, `dist.${process.pid}.new`);

// esbuild has printed what is wrong; its stack would say nothing more.
const result = await bundleInto(fresh).catch(() => process.exit(1));

await replaceFolder(fresh, path.join(root, "dist"));
const bytes = Object.values(result.metafile.outputs).reduce((sum, output) => sum + output.bytes, 0);
const files = Object.keys(result.metafile.outputs).filter((name) => name.endsWith(".mjs")).length;
const ms = Math.round(performance.now() - started);
console.log(`dist: ${files} files, ${Math.round(bytes / 1024)} KiB with source maps, ${ms} ms`);

if (values.release) {
  const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as {
    version: string;
  };
  const out = path.join(root, "release");
  await rm(out, { recursive: true, force: true });
  const platforms = values.platforms.split(",");
  const baseUrl = values["base-url"];
  const bundle = path.join(root, "dist");
  const sums = await buildRelease({ version, platforms, bundle, out, baseUrl, nodeFor: pinnedNode });
  for (const [name, sum] of Object.entries(sums)) console.log(`release/${name}  ${sum}`);
}

/** Old chunks of a running program stay readable until the moment of the swap. */
async function replaceFolder(from: string, to: string): Promise<void> {
  const old = `${to}.${process.pid}.old`;
  if (existsSync(to)) await rename(to, old);
  await rename(from, to);
  await rm(old, { recursive: true, force: true });
}
