/** Finds the engines that the demo gives to its agent: named, on PATH, or what setup put into the cache. */
import { readdirSync } from "node:fs";
import path from "node:path";
import type { PartsConfig } from "./config.ts";
import { isExecutable } from "./parts.ts";

/** Undefined where there is none. */
export function findLlamaServer(config: PartsConfig): string | undefined {
  return find("llama-server", config.llamaServer, path.join("bin", "llama-server"), config);
}

/** Undefined where there is none. */
export function findOllama(config: PartsConfig): string | undefined {
  return find("ollama", config.ollama, "ollama", config);
}

/** `inCache`: where the program is in a version's folder of the cache. */
function find(
  name: string,
  named: string | undefined,
  inCache: string,
  { programFolders, cacheDir }: PartsConfig,
): string | undefined {
  const onPath = programFolders.map((folder) => path.join(folder, name));
  const cached = versionsIn(path.join(cacheDir, name)).map((version) => path.join(version, inCache));
  return [...(named === undefined ? [] : [named]), ...onPath, ...cached].find(isExecutable);
}

/** Newest version first; a folder that is still being filled starts with a dot. */
function versionsIn(folder: string): readonly string[] {
  try {
    const versions = readdirSync(folder).filter((name) => !name.startsWith("."));
    const newestFirst = versions.sort((one, other) => other.localeCompare(one, "en", { numeric: true }));
    return newestFirst.map((name) => path.join(folder, name));
  } catch {
    return [];
  }
}
