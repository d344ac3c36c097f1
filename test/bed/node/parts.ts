/** The programs of a real node, and what else a machine needs for one. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findClusterParts } from "../../../local/control-plane/parts.ts";
import { findImages } from "../../../scripts/setup/images.mjs";
import { findNodeParts } from "../../../scripts/setup/node/node-parts.mjs";
import { whyNoKubeProxy } from "../kube-proxy.ts";
import { whyNoNetwork } from "../network.ts";
import { whyNoCgroups } from "./cgroups.ts";

export interface NodeParts {
  /** Holds containerd, its shim, ctr, runc, the plugins of the network, and pause. */
  readonly folder: string;
  readonly kubelet: string;
  /** native copies whole images for each container; slower, and works on every file system. */
  readonly snapshotter: "overlayfs" | "native";
}

const MISSING = "kubelet, containerd, runc or an image is not here: npm run setup -- --for system";

/** Undefined where this machine can run one, else the reason for skipping a test. */
export function whyNoRealNode(): string | undefined {
  return whyNoNetwork() ?? whyNoKubeProxy() ?? whyNoParts() ?? whyNoCgroups() ?? whyNoMounts();
}

export function nodeParts(): NodeParts {
  const { kubelet } = findClusterParts(readPartsConfig());
  const folder = findNodeParts();
  if (folder === undefined || kubelet === undefined) throw new Error(MISSING);
  return { folder, kubelet, snapshotter: canMount("overlay") ? "overlayfs" : "native" };
}

function whyNoParts(): string | undefined {
  const { kubelet, kubeScheduler, kubeControllerManager } = findClusterParts(readPartsConfig());
  const needed = [kubelet, kubeScheduler, kubeControllerManager, findNodeParts(), findImages()];
  return needed.includes(undefined) ? MISSING : undefined;
}

function whyNoMounts(): string | undefined {
  return canMount("tmpfs") ? undefined : "this process may not mount file systems";
}

/** In a mount namespace that is gone afterwards. */
function canMount(type: "tmpfs" | "overlay"): boolean {
  const folder = mkdtempSync(path.join(tmpdir(), "metalbridge-mount-"));
  try {
    const at = (name: string) => path.join(folder, name);
    for (const name of ["lower", "upper", "work", "merged"]) mkdirSync(at(name));
    const layers = `lowerdir=${at("lower")},upperdir=${at("upper")},workdir=${at("work")}`;
    const options = type === "overlay" ? ["-o", layers] : [];
    const command = ["mount", "-t", type, ...options, type, at("merged")];
    return spawnSync("unshare", ["--mount", ...command]).status === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
