/** Storage of a node: volumes that claims are bound to when their first pod is scheduled. */
import { chmodSync, mkdirSync } from "node:fs";
import path from "node:path";
import type { Objects } from "../objects.ts";
import type { RealNode } from "./node.ts";

export interface LocalVolumeOptions {
  /** By default a number of its own. */
  readonly name?: string;
  readonly size: string;
  /** A file system that is as small as its size, so that it can be filled. */
  readonly tmpfs?: boolean;
  /** Size of that file system, where it is smaller than the volume says. */
  readonly realSize?: string;
  /** `local` by default, which is the default class. */
  readonly storageClass?: string;
}

export interface LocalVolume {
  readonly name: string;
  /** Its files, as this machine can open them. */
  readonly folder: string;
}

export const LOCAL_CLASS = "local";

let made = 0;

/** The class of local volumes, and the default one: nothing provisions them. */
export function localStorageClass(): object {
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: { name: LOCAL_CLASS, annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
    provisioner: "kubernetes.io/no-provisioner",
    volumeBindingMode: "WaitForFirstConsumer",
  };
}

/** Kept when its claim is deleted, as such volumes are. */
export async function localVolume(
  objects: Objects,
  node: RealNode,
  options: LocalVolumeOptions,
): Promise<LocalVolume> {
  made += 1;
  const { name = `${node.name}-${made}`, size, storageClass = LOCAL_CLASS } = options;
  const folder = path.join(node.folder, "volumes", name);
  mkdirSync(folder, { recursive: true });
  if (options.tmpfs === true) {
    const bytes = (options.realSize ?? size).replace(/i$/, "").toLowerCase();
    await node.run("mount", "-t", "tmpfs", "-o", `size=${bytes},mode=0777`, "tmpfs", folder);
  } else chmodSync(folder, 0o777);
  const hostname = { key: "kubernetes.io/hostname", operator: "In", values: [node.name] };
  const volume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      capacity: { storage: size },
      accessModes: ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"],
      persistentVolumeReclaimPolicy: "Retain",
      storageClassName: storageClass,
      local: { path: folder },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [hostname] }] } },
    },
  };
  await objects.create(volume);
  return { name, folder: node.pathOf(folder) };
}
