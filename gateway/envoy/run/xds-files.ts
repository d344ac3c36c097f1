/** Writes the files that Envoy follows: only those that differ, each replaced by one rename. */
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { sha256Hex } from "../../../src/util/hash.ts";
import { joinClusters } from "../render/clusters.ts";
import type { EnvoyCluster } from "../types.ts";
import type { EnvoyPaths } from "./paths.ts";

export interface XdsFiles {
  /**
   * Writes a file unless it has this text already. Returns true if it was written. Throws the system error; then Envoy keeps
   * what it has.
   */
  readonly put: (path: string, text: string) => Promise<boolean>;
  readonly putClusters: (clusters: readonly EnvoyCluster[]) => Promise<boolean>;
}

export interface XdsFilesOptions {
  readonly paths: EnvoyPaths;
  readonly renderCluster: (cluster: EnvoyCluster) => string;
  /** Texts of clusters that are no services. */
  readonly ownClusters: readonly string[];
}

export function createXdsFiles({ paths, renderCluster, ownClusters }: XdsFilesOptions): XdsFiles {
  const hashes = new Map<string, string>();
  /** One endpoint changes at a time, so the text of the other clusters is reused. */
  const texts = new WeakMap<EnvoyCluster, string>();
  const textOf = (cluster: EnvoyCluster): string => {
    const text = texts.get(cluster) ?? renderCluster(cluster);
    texts.set(cluster, text);
    return text;
  };

  const put = async (path: string, text: string): Promise<boolean> => {
    const hash = sha256Hex(text);
    // An earlier gateway may have written the same, and the disk may be full now.
    const found = hashes.get(path) ?? (await readFile(path, "utf8").then(sha256Hex, () => undefined));
    if (found !== hash) await replace(path, text, paths.partial);
    hashes.set(path, hash);
    return found !== hash;
  };
  let written: readonly string[] = [];
  return {
    put,
    putClusters: async (desired) => {
      const clusters = [...ownClusters, ...desired.map(textOf)];
      // Endpoints change far more often than clusters, of which a thousand are megabytes.
      if (isSame(clusters, written)) return false;
      const isWritten = await put(paths.clusters, joinClusters(clusters));
      written = clusters;
      return isWritten;
    },
  };
}

function isSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((text, index) => text === others[index]);
}

export async function makeXdsFolders({ xds, partial }: EnvoyPaths): Promise<void> {
  await rm(partial, { recursive: true, force: true });
  for (const folder of [xds, partial]) await mkdir(folder, { recursive: true, mode: 0o700 });
}

/** No fsync: after a power failure the gateway writes every file again. Written in another folder, which Envoy does not watch. */
async function replace(path: string, text: string, partial: string): Promise<void> {
  const temporary = join(partial, basename(path));
  try {
    await writeFile(temporary, text, { mode: 0o600 });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
