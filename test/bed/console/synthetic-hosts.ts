/** Hosts and nodes of a synthetic farm, as agents and kubelets report them. The same index gives the same machine. */
import type { Condition } from "../../../src/api/conditions.ts";
import { API_VERSION } from "../../../src/api/group.ts";
import type { HostStatus } from "../../../src/api/host.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import type { SyntheticTexts } from "./synthetic-texts.ts";

const GIB = 2 ** 30;

interface Machine {
  readonly chip: string;
  readonly hardwareModel: string;
  readonly memoryGib: number;
  readonly gpuCores: number;
  readonly cores: readonly [performance: number, efficiency: number];
  readonly bandwidth: number;
}

const MACHINES: readonly Machine[] = [
  {
    chip: "Apple M4 Max",
    hardwareModel: "Mac16,5",
    memoryGib: 128,
    gpuCores: 40,
    cores: [12, 4],
    bandwidth: 546,
  },
  {
    chip: "Apple M3 Ultra",
    hardwareModel: "Mac15,14",
    memoryGib: 512,
    gpuCores: 80,
    cores: [24, 8],
    bandwidth: 819,
  },
  { chip: "Apple M1", hardwareModel: "Macmini9,1", memoryGib: 16, gpuCores: 8, cores: [4, 4], bandwidth: 68 },
  {
    chip: "Apple M4 Pro",
    hardwareModel: "Mac16,11",
    memoryGib: 64,
    gpuCores: 20,
    cores: [10, 4],
    bandwidth: 273,
  },
  {
    chip: "Apple M2 Ultra",
    hardwareModel: "Mac14,14",
    memoryGib: 192,
    gpuCores: 76,
    cores: [16, 8],
    bandwidth: 800,
  },
  { chip: "Apple M2", hardwareModel: "Mac14,3", memoryGib: 24, gpuCores: 10, cores: [4, 4], bandwidth: 100 },
  {
    chip: "Apple M3 Max",
    hardwareModel: "Mac15,8",
    memoryGib: 96,
    gpuCores: 40,
    cores: [12, 4],
    bandwidth: 400,
  },
  {
    chip: "Apple M1 Ultra",
    hardwareModel: "Mac13,2",
    memoryGib: 128,
    gpuCores: 64,
    cores: [16, 4],
    bandwidth: 800,
  },
];

/** What sets a few of many hosts apart. */
type Trouble =
  | "none"
  | "cordoned"
  | "draining"
  | "warning"
  | "critical"
  | "stale"
  | "noEngine"
  | "diskFull"
  | "hot";

const TROUBLES: Readonly<Record<number, Trouble>> = {
  4: "warning",
  7: "cordoned",
  9: "stale",
  11: "critical",
  13: "noEngine",
  15: "hot",
  16: "draining",
  18: "diskFull",
};
const HOST = { apiVersion: API_VERSION, kind: "Host" };
/** Every so many hosts are alike. */
const ROUND = 20;

export interface SyntheticHost {
  readonly object: {
    readonly metadata: { readonly name: string; readonly labels: object };
    readonly spec: object;
  };
  readonly budgetBytes: number;
  readonly isStale: boolean;
  readonly statusWith: (claimedBytes: number, nowIso: string) => HostStatus;
}

export function syntheticHost(index: number, texts: SyntheticTexts): SyntheticHost {
  const described = MACHINES[index % MACHINES.length] as Machine;
  const machine = { ...described, chip: texts.chip(index, described.chip) };
  const trouble = TROUBLES[index % ROUND] ?? "none";
  const name = texts.hostName(index);
  const budgetBytes = budgetOf(index);
  const spec = {
    addresses: [addressOf(index)],
    unschedulable: trouble === "cordoned" || trouble === "draining",
    drain: trouble === "draining",
    memory: { systemReserve: "4Gi" },
  };
  return {
    object: { ...HOST, metadata: { name, labels: { room: `room-${index % 12}` } }, spec },
    budgetBytes,
    isStale: trouble === "stale",
    statusWith: (claimedBytes, nowIso) =>
      hostStatus({ index, machine, trouble, budgetBytes }, claimedBytes, nowIso),
  };
}

/** Memory for engines. */
export function budgetOf(index: number): number {
  return 0.75 * (MACHINES[index % MACHINES.length]?.memoryGib ?? 0) * GIB;
}

interface Described {
  readonly index: number;
  readonly machine: Machine;
  readonly trouble: Trouble;
  readonly budgetBytes: number;
}

function hostStatus(
  { index, machine, trouble, budgetBytes }: Described,
  claimedBytes: number,
  nowIso: string,
): HostStatus {
  const totalBytes = machine.memoryGib * GIB;
  const leftBytes = Math.max(0, Math.round(budgetBytes - 4 * GIB - claimedBytes));
  const [performanceCores, efficiencyCores] = machine.cores;
  const diskBytes = 994_662_584_320;
  const freeBytes = trouble === "diskFull" ? 3 * GIB : Math.round(diskBytes * (0.2 + (index % 7) / 10));
  return {
    conditions: conditionsOf(trouble, nowIso),
    addresses: [addressOf(index)],
    info: {
      os: "darwin",
      osVersion: `26.${index % 3}`,
      arch: "arm64",
      chip: machine.chip,
      hardwareModel: machine.hardwareModel,
      performanceCores,
      efficiencyCores,
      gpuCores: machine.gpuCores,
      memoryBytes: totalBytes,
      memoryBandwidthGBs: machine.bandwidth,
      agentVersion: index % 9 === 8 ? "0.9.2" : "0.10.0",
      bootTime: "2026-11-01T06:00:00Z",
    },
    runtimes:
      trouble === "noEngine"
        ? []
        : [{ name: "llamacpp", version: "b9021", path: "/opt/homebrew/bin/llama-server" }],
    memory: {
      totalBytes,
      availableBytes: Math.max(0, Math.round(totalBytes - claimedBytes - 6 * GIB)),
      wiredBytes: Math.round(claimedBytes * 0.8),
      gpuBudgetBytes: budgetBytes,
      claimedBytes,
      leftBytes,
      total: formatBytes(totalBytes),
      claimed: formatBytes(claimedBytes),
      left: `${formatBytes(leftBytes)} of ${formatBytes(budgetBytes)}`,
      pressure: trouble === "critical" ? "Critical" : trouble === "warning" ? "Warning" : "Normal",
    },
    disk: { totalBytes: diskBytes, freeBytes, usedBytes: Math.round((diskBytes - freeBytes) / 2) },
    models: [],
  };
}

function conditionsOf(trouble: Trouble, nowIso: string): Condition[] {
  const isStale = trouble === "stale";
  const hasPressure = trouble === "warning" || trouble === "critical";
  const all: readonly (readonly [type: string, isTrue: boolean, reason: string, message: string])[] = [
    [
      "DiskPressure",
      trouble === "diskFull",
      trouble === "diskFull" ? "DiskFull" : "Normal",
      "less than the reserve of 10.0 GiB is free",
    ],
    ["Flapping", false, "NotFlapping", ""],
    ["Lost", false, "NotLost", ""],
    [
      "MemoryPressure",
      hasPressure,
      hasPressure ? (trouble === "critical" ? "Critical" : "Warning") : "Normal",
      hasPressure
        ? "the OS reports it: no new engine starts until memory has recovered"
        : "memory is available",
    ],
    [
      "Reachable",
      !isStale,
      isStale ? "HostUnreachable" : "HostReachable",
      isStale
        ? "no renewal of the agent's Lease for 40 s or longer; engines here get no new requests, and replicas will be rescheduled after their hostLostSeconds; check that the host is awake and on the network, and that its agent runs"
        : "the agent renews its Lease",
    ],
    trouble === "noEngine"
      ? [
          "Ready",
          false,
          "RuntimeNotInstalled",
          "no engine was found on this host; install llama.cpp: brew install llama.cpp",
        ]
      : ["Ready", true, "AgentReady", "engines can be served on 198.18.0.1"],
    [
      "ThermalPressure",
      trouble === "hot",
      trouble === "hot" ? "ThermalThrottled" : "Fine",
      trouble === "hot"
        ? "the machine is throttled to 60 % of its speed; check its air flow"
        : "the machine runs at full speed",
    ],
  ];
  return all.map(([type, isTrue, reason, message]) => ({
    type,
    status: isTrue ? "True" : "False",
    reason,
    message,
    lastTransitionTime: nowIso,
  }));
}

function addressOf(index: number): string {
  return `198.18.${index >> 8}.${index & 255}`;
}

/** A Linux node with GPUs, as its kubelet registers it. */
export function syntheticNode(index: number): object {
  const name = `gpu-${String(index + 1).padStart(3, "0")}`;
  const resources = { cpu: "64", memory: "512Gi", pods: "110", "nvidia.com/gpu": "4" };
  const product = index % 2 === 0 ? "NVIDIA-A100-SXM4-80GB" : "NVIDIA-L40S";
  const labels = {
    "kubernetes.io/arch": "amd64",
    "nvidia.com/gpu.product": product,
    "nvidia.com/gpu.memory": index % 2 === 0 ? "81920" : "46068",
  };
  const isReady = index % 5 !== 4;
  const ready = {
    type: "Ready",
    status: isReady ? "True" : "Unknown",
    reason: isReady ? "KubeletReady" : "NodeStatusUnknown",
    message: isReady ? "kubelet is posting ready status" : "Kubelet stopped posting node status.",
    lastHeartbeatTime: new Date().toISOString(),
    lastTransitionTime: "2026-11-01T06:00:00Z",
  };
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels },
    status: {
      capacity: resources,
      allocatable: resources,
      conditions: [ready],
      addresses: [{ type: "InternalIP", address: `198.19.0.${(index % 250) + 1}` }],
      nodeInfo: {
        ...{
          architecture: "amd64",
          bootID: "",
          containerRuntimeVersion: "containerd://2.1.0",
          kernelVersion: "6.12.0",
        },
        ...{ kubeProxyVersion: "", kubeletVersion: "v1.36.3", machineID: "", operatingSystem: "linux" },
        ...{ osImage: "Debian GNU/Linux 13 (trixie)", systemUUID: "" },
      },
    },
  };
}
