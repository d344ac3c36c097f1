/** kubelet inside a node's machine. */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import type { WatchedChild } from "../../../local/control-plane/process/watched-child.ts";
import { socketIn } from "./containerd.ts";
import type { Machine } from "./machine.ts";
import type { NodeParts } from "./parts.ts";

export interface KubeletOptions {
  readonly folder: string;
  readonly parts: NodeParts;
  readonly nodeName: string;
  readonly address: string;
  readonly kubeconfig: string;
  readonly cgroup: string;
  /** Duration of the node's Lease, which kubelet renews four times as often; 40 by default. */
  readonly leaseSeconds?: number | undefined;
  /** Longest pause between two starts of a container that exits; 300 by default. */
  readonly backOffSeconds?: number | undefined;
}

export function startKubelet(machine: Machine, options: KubeletOptions): WatchedChild {
  const { folder, parts, nodeName, address, kubeconfig } = options;
  const at = (name: string) => path.join(folder, name);
  mkdirSync(at("kubelet"), { recursive: true });
  writeFileSync(at("kubelet.yaml"), stringify(configuration(options)));
  // No DNS: a pod resolves nothing.
  writeFileSync(at("resolv.conf"), "");
  return machine.start(
    "kubelet",
    [
      parts.kubelet,
      `--config=${at("kubelet.yaml")}`,
      `--kubeconfig=${kubeconfig}`,
      `--root-dir=${at("kubelet")}`,
      `--cert-dir=${at("kubelet-pki")}`,
      `--hostname-override=${nodeName}`,
      `--node-ip=${address}`,
    ],
    { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  );
}

function configuration(options: KubeletOptions): object {
  const { folder, address, cgroup, leaseSeconds = 40, backOffSeconds = 300 } = options;
  const never = "0%";
  return {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    failCgroupV1: false,
    failSwapOn: false,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${cgroup}`,
    enforceNodeAllocatable: [],
    containerRuntimeEndpoint: `unix://${socketIn(folder)}`,
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: "AlwaysAllow" },
    address,
    nodeLeaseDurationSeconds: leaseSeconds,
    // Storage that a pod uses beyond its limit is seen with the next measurement.
    volumeStatsAggPeriod: "5s",
    crashLoopBackOff: { maxContainerRestartPeriod: `${backOffSeconds}s` },
    healthzPort: 0,
    podLogsDir: path.join(folder, "pod-logs"),
    volumePluginDir: path.join(folder, "volume-plugins"),
    resolvConf: path.join(folder, "resolv.conf"),
    // kube-proxy works with nftables, and there may be no iptables.
    makeIPTablesUtilChains: false,
    // The disk is this machine's; how full it is must not affect a test.
    evictionHard: {
      "memory.available": "1Mi",
      "nodefs.available": never,
      "imagefs.available": never,
      "nodefs.inodesFree": never,
      "imagefs.inodesFree": never,
    },
    imageGCHighThresholdPercent: 100,
  };
}
