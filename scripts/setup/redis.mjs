/** A Redis server for tests of shared counters: the system's own, or Debian's packages, unpacked into the cache, not installed. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath } from "./command.mjs";
import { fillFolder } from "./fill-folder.mjs";
import { unpackPackages } from "./private-apt.mjs";
import { SetupError } from "./steps.mjs";

/** redis-tools holds the program. The others are libraries that a small system lacks. */
const PACKAGES = [
  ...["redis-server", "redis-tools", "libjemalloc2", "liblua5.1-0", "libhiredis0.14"],
  ...["liblzf1", "libatomic1", "lua-cjson", "lua-bitop"],
];

/** `{ program, libraries? }`: the program, to be started as `redis-server`, and the folder for LD_LIBRARY_PATH if it is not the system's own; else undefined. */
export function findRedis(env = process.env) {
  for (const name of ["redis-server", "valkey-server"]) {
    const program = findOnPath(name, env);
    if (program !== undefined) return { program };
  }
  const usr = join(prefixIn(env), "usr");
  // The package redis-server holds only a link to this program of redis-tools.
  const program = join(usr, "bin", "redis-check-rdb");
  if (!existsSync(program)) return undefined;
  const folder = readdirSync(join(usr, "lib")).find((name) => name.endsWith("-linux-gnu"));
  return { program, libraries: join(usr, "lib", folder ?? "") };
}

/** Optional: says what is skipped without it, and never fails. */
export async function ensureRedis({ progress, env = process.env }) {
  try {
    const hasApt = ["apt-get", "dpkg"].every((program) => findOnPath(program, env) !== undefined);
    if (findRedis(env) === undefined && hasApt)
      await progress.during("redis", "fetching the system's package redis-server into the cache", () =>
        fillFolder(prefixIn(env), async (work) => (await unpackPackages(work, PACKAGES)).prefix),
      );
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    progress.note(error.message);
  }
  const found = findRedis(env);
  if (found === undefined) progress.note("no redis-server: tests of shared counters are skipped; install it");
  else progress.cached("redis", found.program);
}

function prefixIn(env) {
  return join(cacheDir(env), "redis", "prefix");
}
