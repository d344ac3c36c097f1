/** The cache folder of setup; local/control-plane/config.ts looks in the same places. */
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { SetupError } from "./steps.mjs";

/** The versions that are pinned by cluster-parts/go.mod; part of the folder's name. */
export const CLUSTER_PARTS_VERSION = "v1.36.3-etcd-v3.7.3";

/** $METALBRIDGE_CACHE, else the user's cache folder of the platform. */
export function cacheDir(env = process.env) {
  for (const name of ["METALBRIDGE_CACHE", "XDG_CACHE_HOME"]) {
    if (env[name] && !isAbsolute(env[name]))
      throw new SetupError(`${name} must be an absolute path`, [`unset ${name}`]);
  }
  if (env.METALBRIDGE_CACHE) return env.METALBRIDGE_CACHE;
  if (env.XDG_CACHE_HOME) return join(env.XDG_CACHE_HOME, "metalbridge");
  if (process.platform === "darwin") return join(homedir(), "Library", "Caches", "metalbridge");
  return join(homedir(), ".cache", "metalbridge");
}

export function clusterPartsDir(env = process.env) {
  return join(cacheDir(env), "cluster-parts", `${CLUSTER_PARTS_VERSION}-${process.platform}-${process.arch}`);
}

export function llamaServerDir(env = process.env) {
  return join(cacheDir(env), "llama-server");
}
