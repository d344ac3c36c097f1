/** Writes the files that Envoy follows: only those that differ, each replaced by one rename, clusters after their endpoints. */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { listFolder } from "../../../src/util/folder.ts";
import { sha256Hex } from "../../../src/util/hash.ts";
import { renderClusters, renderEndpoints } from "../render/clusters.ts";
import type { EnvoyCluster } from "../types.ts";
import type { EnvoyPaths } from "./paths.ts";

export interface XdsFiles {
  /** Writes a file unless it has this text already. Returns true if it was written. Throws the system error. */
  readonly put: (path: string, text: string) => Promise<boolean>;
  /** Returns the number of files that differed. Throws the system error; then Envoy keeps what it has, and a further call continues. */
  readonly putClusters: (clusters: readonly EnvoyCluster[]) => Promise<number>;
}

export interface XdsFilesOptions {
  readonly paths: EnvoyPaths;
  readonly decideSocket: string;
  readonly maxBodyBytes: number;
}

export function createXdsFiles({ paths, decideSocket, maxBodyBytes }: XdsFilesOptions): XdsFiles {
  const hashes = new Map<string, string>();
  let known: ReadonlyMap<string, EnvoyCluster> = new Map();
  let clustersKey: string | undefined;
  const endpointsFile = (name: string) => join(paths.endpoints, `${fileName(name)}.json`);

  const put = async (path: string, text: string): Promise<boolean> => {
    const hash = sha256Hex(text);
    if (hashes.get(path) === hash) return false;
    await replace(path, text, paths.partial);
    hashes.set(path, hash);
    return true;
  };

  const putClusters = async (clusters: readonly EnvoyCluster[]): Promise<number> => {
    let written = 0;
    for (const cluster of clusters) {
      if (known.get(cluster.name) === cluster) continue;
      if (await put(endpointsFile(cluster.name), renderEndpoints(cluster))) written += 1;
    }
    // Rendering all clusters takes milliseconds, so it is left out where only endpoints differ.
    const key = clusters.map(settingsOf).join("\n");
    if (key !== clustersKey) {
      const text = renderClusters(clusters, { decideSocket, endpointsFile, maxBodyBytes });
      if (await put(paths.clusters, text)) written += 1;
      clustersKey = key;
      await removeOthers(clusters);
    }
    known = new Map(clusters.map((cluster) => [cluster.name, cluster]));
    return written;
  };

  const removeOthers = async (clusters: readonly EnvoyCluster[]): Promise<void> => {
    const wanted = new Set(clusters.map(({ name }) => basename(endpointsFile(name))));
    for (const file of await listFolder(paths.endpoints)) {
      if (wanted.has(file)) continue;
      hashes.delete(join(paths.endpoints, file));
      await rm(join(paths.endpoints, file), { force: true });
    }
  };
  return { put, putClusters };
}

export async function makeXdsFolders({ endpoints, partial }: EnvoyPaths): Promise<void> {
  await rm(partial, { recursive: true, force: true });
  for (const folder of [endpoints, partial]) await mkdir(folder, { recursive: true, mode: 0o700 });
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

/** A namespace has no dot, so names stay distinct. */
function fileName(cluster: string): string {
  return cluster.replace("/", ".");
}

function settingsOf({ name, maxConnections, slowStartMs }: EnvoyCluster): string {
  return `${name} ${maxConnections} ${slowStartMs}`;
}
