/** Finds prometheus and promtool on this machine; setup and the tests look in the same places. */
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "../cache.mjs";
import { findOnPath, isExecutable } from "../command.mjs";

export const PROGRAMS = ["prometheus", "promtool"];

export function prometheusDir(env = process.env) {
  return join(cacheDir(env), "prometheus");
}

/** A folder with both: the one that METALBRIDGE_PROMETHEUS names, one of PATH, the newest of the cache; else undefined. */
export function findPrometheus(env = process.env) {
  const onPath = findOnPath("promtool", env);
  const named = env.METALBRIDGE_PROMETHEUS;
  const folders = [
    ...(named ? [named] : []),
    ...(onPath === undefined ? [] : [dirname(onPath)]),
    ...cached(prometheusDir(env)),
  ];
  return folders.find(hasBoth);
}

export function hasBoth(folder) {
  return PROGRAMS.every((name) => isExecutable(join(folder, name)));
}

/** Newest first by name; folders that are still being filled start with a dot. */
function cached(folder) {
  let names = [];
  try {
    names = readdirSync(folder).filter((name) => !name.startsWith("."));
  } catch {
    // Nothing was ever put there.
  }
  return names
    .sort((one, other) => other.localeCompare(one, "en", { numeric: true }))
    .map((name) => join(folder, name));
}
