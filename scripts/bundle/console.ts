/** The console as static files, each beside its compressed forms: compressing once at build time costs no request anything. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import { build } from "vite";
import { root } from "../project/root.ts";

const COMPRESSIBLE = /\.(js|css|html|svg|json)$/;
/** Smaller files fit in a packet anyway. */
const MIN_BYTES = 1_024;

/** Rejects when the sources cannot be bundled. */
export async function bundleConsoleInto(outDir: string): Promise<void> {
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
