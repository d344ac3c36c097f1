/** Finds the real programs of the control plane: a folder named by KUBEBUILDER_ASSETS first, then what setup put into the cache. */
import { accessSync, constants } from "node:fs";
import path from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { PartsConfig } from "./config.ts";

/** The versions that setup provides; the folder's name holds them, so that an upgrade never meets old programs. */
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

/** Paths of every program found; etcd and kube-apiserver are required, the rest may be absent. */
export function findClusterParts(config: PartsConfig): ClusterParts {
  const folders = partFolders(config);
  const find = (name: string) => folders.map((folder) => path.join(folder, name)).find(isExecutable);
  const etcd = find("etcd");
  const kubeApiserver = find("kube-apiserver");
  if (etcd === undefined || kubeApiserver === undefined) {
    const missing = [etcd ?? "etcd", kubeApiserver ?? "kube-apiserver"].filter(
      (name) => !path.isAbsolute(name),
    );
    throw new MetalbridgeError(
      "ClusterPartsMissing",
      `${missing.join(" and ")} not found in ${folders.join(" or ")}`,
    );
  }
  return {
    etcd,
    kubeApiserver,
    ...optional("kubectl", find("kubectl")),
    ...optional("kubeControllerManager", find("kube-controller-manager")),
    ...optional("kubeProxy", find("kube-proxy")),
    ...optional("kubeScheduler", find("kube-scheduler")),
    ...optional("kubelet", find("kubelet")),
  };
}

/** Folders in the order they are searched, program by program: envtest's archives lack some that the cache has. */
export function partFolders(config: PartsConfig): readonly string[] {
  const name = `${CLUSTER_PARTS_VERSION}-${config.platform}-${config.arch}`;
  const cached = path.join(config.cacheDir, "cluster-parts", name);
  return config.assetsDir === undefined ? [cached] : [config.assetsDir, cached];
}

/** A file that this user may run. */
export function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function optional<K extends string>(key: K, value: string | undefined): { [P in K]?: string } {
  return value === undefined ? {} : ({ [key]: value } as { [P in K]?: string });
}
