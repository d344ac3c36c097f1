/** Finds the engine programs for the agent of the demo, and Envoy for the gateway: configured, on PATH, or in the cache of setup. */
import { readdirSync } from "node:fs";
import path from "node:path";
import type { PartsConfig } from "./config.ts";
import { isExecutableFile } from "./parts.ts";

export function findLlamaServer(config: PartsConfig): string | undefined {
  return find("llama-server", config.llamaServer, path.join("bin", "llama-server"), config);
}

export function findOllama(config: PartsConfig): string | undefined {
  return find("ollama", config.ollama, "ollama", config);
}

export function findEnvoy(config: PartsConfig): string | undefined {
  return find("envoy", config.envoy, "envoy", config);
}

/** Undefined if there is no such program. `inCache` is its path in the folder of a version in the cache. */
function find(
  name: string,
  configured: string | undefined,
  inCache: string,
  { programFolders, cacheDir }: PartsConfig,
): string | undefined {
  const onPath = programFolders.map((folder) => path.join(folder, name));
  const cached = versionsIn(path.join(cacheDir, name)).map((version) => path.join(version, inCache));
  return [...(configured === undefined ? [] : [configured]), ...onPath, ...cached].find(isExecutableFile);
}

/** Newest version first, without unfinished folders, whose names start with a dot. */
function versionsIn(folder: string): readonly string[] {
  try {
    const versions = readdirSync(folder).filter((name) => !name.startsWith("."));
    const newestFirst = versions.sort((one, other) => other.localeCompare(one, "en", { numeric: true }));
    return newestFirst.map((name) => path.join(folder, name));
  } catch {
    return [];
  }
}
