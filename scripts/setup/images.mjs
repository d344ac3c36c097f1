/** The images of nodes in tests: ours, and stand-ins for engines from Debian's packages. Prepared here, so that no test waits for a mirror. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";

const NAMES = ["metalbridge-", "llamacpp-"];
const NEEDED = ["apt-get", "dpkg-deb"];

/** The folder with all of them, of any bundle; undefined where setup could not prepare them. */
export function findImages(env = process.env) {
  const folder = join(cacheDir(env), "images", "tars");
  const found = existsSync(folder) ? readdirSync(folder) : [];
  return NAMES.every((name) => found.some((one) => one.startsWith(name))) ? folder : undefined;
}

/** Optional: says what is skipped without them. Tests bring the image up to date with the bundle themselves. */
export async function ensureImages({ root, progress, parts: { node }, env = process.env }) {
  const found = findImages(env);
  if (found !== undefined) return progress.cached("images", found);
  const missing = NEEDED.filter((program) => findOnPath(program, env) === undefined);
  if (process.platform !== "linux" || missing.length > 0)
    return progress.note(
      "images for tests are made of Debian's packages on Linux; tests with a node are skipped",
    );
  const tsx = join(root, "node_modules", "tsx", "dist", "cli.mjs");
  const args = [tsx, join(root, "scripts", "images", "for-tests.ts")];
  const what = "fetching Debian's packages, packing images into the cache";
  const { code, tail } = await progress.during("images", what, () => run(node, args, { cwd: root, env }));
  if (code !== 0) progress.note(`no images: tests with a node fail or are skipped\n${tail}`);
}
