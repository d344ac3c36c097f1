/** The row of a node of the cluster, with the claims of our pods. Pure. */

import { claimedBytes, memoryOfPod } from "../../../fitness/density/held-memory.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { Attention, ClaimRow, HostRow, StateWord } from "../../../src/console/rows.ts";
import {
  hasPodEnded,
  type Node,
  type Pod,
  type StatusCondition,
} from "../../../src/kube/workload-objects.ts";
import { isReady } from "../../../src/verdicts/pod.ts";
import { attentionOf } from "./attention.ts";
import { byBytes, lastSeenOf } from "./host.ts";
import type { MachineFigures } from "./machine.ts";

export interface NodeObjects {
  readonly node: Node;
  /** Pods of services on the node. */
  readonly pods: readonly Pod[];
  readonly figures: MachineFigures | undefined;
}

export function nodeHostRow({ node, pods, figures }: NodeObjects): HostRow {
  const { metadata, spec, status } = node;
  const { osImage, operatingSystem = "", architecture = "", kubeletVersion } = status?.nodeInfo ?? {};
  const living = pods.filter((pod) => !hasPodEnded(pod));
  const isStale = figures?.isStale ?? false;
  return {
    name: metadata.name,
    kind: "Node",
    state: nodeState(node),
    attention: nodeAttention(node, living.length > 0),
    isCordoned: spec?.unschedulable === true,
    isStale,
    ...machineFields(figures, architecture),
    os: osImage ?? operatingSystem,
    totalBytes: parseQuantity(status?.capacity?.memory ?? "0") ?? 0,
    budgetBytes: figures?.budgetBytes ?? 0,
    reserveBytes: 0,
    leftBytes: figures?.leftBytes,
    pressure: pressureOf(conditionOf(node, "MemoryPressure")),
    claims: living.map((pod) => podClaim(pod, figures)).sort(byBytes),
    engines: (figures?.engines ?? []).map(({ name, version = "" }) => ({ name, version })),
    agentVersion: kubeletVersion === undefined ? "" : `kubelet ${kubeletVersion}`,
    lastSeen: lastSeenOf(isStale, figures),
    copies: figures?.models ?? 0,
    fits: figures?.fits,
    address: status?.addresses?.find(({ type }) => type === "InternalIP")?.address ?? "",
    resourceVersion: metadata.resourceVersion ?? "",
  };
}

function machineFields(
  figures: MachineFigures | undefined,
  architecture: string,
): Pick<HostRow, "chip" | "backend" | "cores" | "gpus"> {
  if (figures === undefined) return { chip: architecture, backend: "", cores: 0, gpus: 0 };
  const { gpu_name, cpu_name, backend, cpu_cores, gpu_count } = figures.system;
  const chip = gpu_name ?? (cpu_name === "" ? architecture : cpu_name);
  return { chip, backend, cores: cpu_cores, gpus: gpu_count };
}

function podClaim(pod: Pod, figures: MachineFigures | undefined): ClaimRow {
  const held = memoryOfPod(pod);
  const { budgetBytes = 0, wholeGpus = 0 } = figures ?? {};
  const { namespace, service, phase } = held;
  return {
    service: keyOf({ namespace, name: service }),
    replica: pod.metadata.name,
    phase,
    bytes: claimedBytes(held, { budgetBytes, wholeGpus }),
  };
}

function conditionOf({ status }: Node, type: string): StatusCondition | undefined {
  return status?.conditions?.find((one) => one.type === type);
}

function pressureOf(condition: StatusCondition | undefined): HostRow["pressure"] {
  if (condition?.status === "True") return "Warning";
  return condition?.status === "False" ? "Normal" : "Unknown";
}

function nodeState(node: Node): StateWord {
  if (!isReady(node)) return { word: "Not ready", level: "bad" };
  if (node.spec?.unschedulable === true) return { word: "Cordoned", level: "idle" };
  return { word: "Ready", level: "ok" };
}

function nodeAttention(node: Node, hasClaims: boolean): Attention | undefined {
  const names = { node: node.metadata.name };
  if (!isReady(node)) {
    const level = hasClaims ? "bad" : "warn";
    const { message = "", lastTransitionTime: since } = conditionOf(node, "Ready") ?? {};
    return attentionOf({ level, reason: "NodeNotReady", message, since }, names);
  }
  for (const type of ["MemoryPressure", "DiskPressure", "PIDPressure"]) {
    const found = conditionOf(node, type);
    if (found?.status !== "True") continue;
    const { reason = type, message = "", lastTransitionTime: since } = found;
    return attentionOf({ level: "warn", reason, message, since }, names);
  }
  return undefined;
}
