/** Finds the programs of the control plane, first in KUBEBUILDER_ASSETS, then in the cache of setup. */
import { accessSync, constants } from "node:fs";
import path from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { PartsConfig } from "./config.ts";

/** The versions from setup. They are part of the folder name, so that an upgrade does not use old programs. */
export const CLUSTER_PARTS_VERSION = "v1.36.3-etcd-v3.7.3";

export interface ClusterParts {
  readonly etcd: string;
  readonly kubeApiserver: string;
  readonly kubectl?: string;
  readonly kubeControllerManager?: string;
  readonly kubeProxy?: string;
  readonly kubeScheduler?: string;
  readonly kubelet?: string;
}

/** Paths of the programs. etcd and kube-apiserver are required. Throws ClusterPartsMissing. */
export function findClusterParts(config: PartsConfig): ClusterParts {
  const folders = partFolders(config);
  const find = (name: string) => folders.map((folder) => path.join(folder, name)).find(isExecutableFile);
  const etcd = find("etcd");
  const kubeApiserver = find("kube-apiserver");
  if (etcd === undefined || kubeApiserver === undefined) {
    const missing = Object.entries({ etcd, "kube-apiserver": kubeApiserver }).flatMap(([name, file]) =>
      file === undefined ? [name] : [],
    );
    throw new MetalbridgeError(
      "ClusterPartsMissing",
      `${missing.join(" and ")} not found in ${folders.join(" or ")}`,
    );
  }
  return {
    etcd,
    kubeApiserver,
    kubectl: find("kubectl"),
    kubeControllerManager: find("kube-controller-manager"),
    kubeProxy: find("kube-proxy"),
    kubeScheduler: find("kube-scheduler"),
    kubelet: find("kubelet"),
  };
}

/** Throws ClusterPartsMissing without kube-scheduler, which the archives of envtest lack. */
export function requireScheduler({ kubeScheduler }: ClusterParts, config: PartsConfig): void {
  if (kubeScheduler !== undefined) return;
  const message = `kube-scheduler, which --scheduler-config starts, not found in ${partFolders(config).join(" or ")}`;
  throw new MetalbridgeError("ClusterPartsMissing", message);
}

/** Folders in search order for each program, because the archives of envtest lack some programs. */
export function partFolders(config: PartsConfig): readonly string[] {
  const name = `${CLUSTER_PARTS_VERSION}-${config.platform}-${config.arch}`;
  const cached = path.join(config.cacheDir, "cluster-parts", name);
  return config.assetsDir === undefined ? [cached] : [config.assetsDir, cached];
}

/** A file that this user may run. */
export function isExecutableFile(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
