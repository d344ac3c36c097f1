/** `npm run build`: the bundle and the console into dist/. */
import { existsSync } from "node:fs";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build } from "vite";
import { bundleInto } from "./bundle/bundle.ts";
import { root } from "./project/root.ts";

const COMPRESSIBLE = /\.(js|css|html|svg|json)$/;
/** Smaller files fit in a packet anyway. */
const MIN_BYTES = 1_024;

/** Rejects when the sources cannot be bundled. */
async function bundleConsoleInto(outDir: string): Promise<void> {
  const web = path.join(root, "web");
  await build({
    configFile: path.join(web, "vite.config.ts"),
    logLevel: "warn",
    build: { outDir, emptyOutDir: true },
  });
  const entries = await readdir(outDir, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && COMPRESSIBLE.test(entry.name));
  await Promise.all(files.map(({ parentPath, name }) => compress(path.join(parentPath, name))));
}

async function compress(file: string): Promise<void> {
  const content = await readFile(file);
  // The server writes a nonce into it with every request.
  if (content.length < MIN_BYTES || file.endsWith(".html")) return;
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
  const [small, smaller] = await Promise.all([
    promisify(gzip)(content, { level: constants.Z_BEST_COMPRESSION }),
    promisify(brotliCompress)(content, quality),
  ]);
  await Promise.all([writeFile(`${file}.gz`, small), writeFile(`${file}.br`, smaller)]);
}

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
