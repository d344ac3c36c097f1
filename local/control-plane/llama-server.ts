/** Finds the llama-server that the demo gives to its agent: named, on PATH, or what setup put into the cache. */
import { readdirSync } from "node:fs";
import path from "node:path";
import type { PartsConfig } from "./config.ts";
import { isExecutable } from "./parts.ts";

/** Undefined where there is none; the agent then reports RuntimeNotInstalled. */
export function findLlamaServer(config: PartsConfig): string | undefined {
  const named = config.llamaServer === undefined ? [] : [config.llamaServer];
  const onPath = config.programFolders.map((folder) => path.join(folder, "llama-server"));
  return [...named, ...onPath, ...cached(path.join(config.cacheDir, "llama-server"))].find(isExecutable);
}

/** Newest version first; a folder that is still being filled starts with a dot. */
function cached(folder: string): readonly string[] {
  try {
    const versions = readdirSync(folder).filter((name) => !name.startsWith("."));
    const newestFirst = versions.sort((one, other) => other.localeCompare(one, "en", { numeric: true }));
    return newestFirst.map((name) => path.join(folder, name, "bin", "llama-server"));
  } catch {
    return [];
  }
}
