/** A machine for models, from a Host, or from a Node and its own report: hardware, budget, installed runtimes and models. Pure. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import type { Host, HostInstalled } from "../../src/api/host.ts";
import { hasJoined } from "../../src/api/joined.ts";
import type { NodeReport, NodeReportRead } from "../../src/api/node-report.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { deviceClassOfHost } from "../../src/capacity/devices/host.ts";
import { costOfNode, devicesOfNode } from "../../src/capacity/devices/node.ts";
import type { NodeRead } from "../../src/capacity/fitness.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import {
  coreCountOf,
  cpuBackend,
  hostSystem,
  type System,
  systemOfReport,
  WITHOUT_GPU,
} from "../llmfit/system.ts";
import { type MachineRead, machineOf } from "../scoring/machine.ts";
import { nodeAsReported, nodeMachine, nodeOnlyReported, readNode } from "../scoring/node.ts";
import { gibOf } from "../scoring/units.ts";

export interface DensityMachine {
  readonly name: string;
  readonly kind: "Host" | "Node";
  readonly labels?: Readonly<Record<string, string>> | undefined;
  /** Why its state is stale; undefined while it is reachable. */
  readonly staleReason?: string;
  /** True while no agent has joined as this host. */
  readonly isAwaitingJoin?: boolean;
  /** Time of the last heartbeat in its object, in ms since 1970. */
  readonly lastHeartbeatMs?: number;
  readonly isSchedulable: boolean;
  readonly system: System;
  readonly machine: MachineRead;
  /** Facts of the Node object. */
  readonly node?: NodeRead;
  /** Number of GPUs that pods use as a whole; 0 if memory is shared. */
  readonly wholeGpus: number;
  readonly runtimes: readonly { readonly name: string; readonly version?: string }[];
  readonly models: readonly {
    readonly source: string;
    readonly sizeBytes?: number;
    /** Default: derived from the source. */
    readonly runtime?: string;
  }[];
  /** Class of the machine, whose members run a model equally fast. */
  readonly deviceClass?: string | undefined;
  readonly cost?: number | undefined;
  /** Memory that programs could get now, measured on a node. */
  readonly availableBytes?: number;
  /** Mean utilization of its GPUs from 0 to 1, as a node reports it. */
  readonly gpuUtilization?: number | undefined;
}

export function machineFromHost(host: Host): DensityMachine {
  const { runtimes = [], models = [], installed = [] } = host.status ?? {};
  const machine = machineOf(host);
  const staleReason = staleReasonOf(host);
  return {
    name: host.metadata.name,
    kind: "Host",
    labels: host.metadata.labels,
    staleReason,
    isAwaitingJoin: !hasJoined(host),
    isSchedulable: !host.spec.unschedulable && !host.spec.drain,
    system: hostSystem(host, machine),
    machine,
    wholeGpus: 0,
    deviceClass: deviceClassOfHost(host),
    cost: host.spec.cost,
    runtimes: runtimes.map(({ name, version }) => ({ name, version })),
    models: [...models, ...installed].map(
      ({ source, sizeBytes, runtime }: Partial<HostInstalled> & { readonly source: string }) => ({
        source,
        sizeBytes,
        runtime,
      }),
    ),
  };
}

/** Uses the controller's conditions, which depend on its own clock. */
function staleReasonOf(host: Host): string | undefined {
  const { status } = host;
  const reachable = getCondition(status?.conditions, "Reachable");
  if (!hasJoined(host)) return "no agent has joined as this host yet";
  if (reachable?.status === "False") return reachable.message;
  if (isConditionTrue(status?.conditions, "Lost")) return "declared lost";
  const hasReported = status?.info !== undefined || status?.memory !== undefined;
  return hasReported ? undefined : "its agent has not reported yet";
}

/** `report` is that of the node itself. */
export function machineFromNode(node: Node, report?: NodeReportRead): DensityMachine {
  return withReport(placeOfNode(node, report), report);
}

/** The report supplies the class of nodes without labels. */
function placeOfNode(node: Node, report: NodeReportRead | undefined): DensityMachine {
  const { spec, status, metadata } = node;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const lastHeartbeatMs = Date.parse(ready?.lastHeartbeatTime ?? "");
  const read = readNode(node);
  return {
    name: metadata.name,
    kind: "Node",
    labels: metadata.labels,
    staleReason: ready?.status === "True" ? undefined : ready?.message || "the node is not ready",
    lastHeartbeatMs: Number.isNaN(lastHeartbeatMs) ? undefined : lastHeartbeatMs,
    isSchedulable: spec?.unschedulable !== true,
    system: nodeSystem(read),
    machine: nodeMachine(read),
    node: read,
    wholeGpus: read.gpus?.count ?? 0,
    deviceClass: deviceClassOf(devicesOfNode(node, [], report?.at === "known" ? report.report : undefined)),
    cost: costOfNode(node),
    runtimes: [],
    models: [],
  };
}

function nodeSystem({ totalBytes, allocatableBytes, cores, arch, gpus }: NodeRead): System {
  const base = {
    total_ram_gb: gibOf(totalBytes) ?? 0,
    available_ram_gb: gibOf(allocatableBytes) ?? 0,
    cpu_cores: coreCountOf(cores),
    cpu_name: arch ?? "",
  };
  if (gpus === undefined) return { ...base, ...WITHOUT_GPU, backend: cpuBackend(arch) };
  const { name, backend, count } = gpus;
  const vram = gibOf(gpus.bytesEach) ?? null;
  return {
    ...base,
    has_gpu: true,
    gpu_vram_gb: vram,
    gpu_name: name,
    gpu_count: count,
    unified_memory: false,
    backend,
    gpus: [{ name, vram_gb: vram, backend, count, unified_memory: false }],
  };
}

function withReport(place: DensityMachine, read: NodeReportRead | undefined): DensityMachine {
  if (read === undefined) return place;
  if (read.at === "unusable") return { ...place, machine: read };
  const { report } = read;
  const { availableBytes } = report.memory ?? {};
  return {
    ...place,
    system: systemBoth(place, report),
    machine: place.node === undefined ? place.machine : nodeMachine(nodeAsReported(place.node, read)),
    availableBytes,
    gpuUtilization: report.gpuUtilization,
    ...installedBy(report),
  };
}

/** The report's system, but with the Node's GPUs if the report lacks their memory, or if pods get parts of them. */
function systemBoth({ system, node }: DensityMachine, report: NodeReport): System {
  const found = systemOfReport(report);
  const isLess = found.gpu_vram_gb === null && (system.gpu_vram_gb !== null || !found.has_gpu);
  if (!system.has_gpu || !(isLess || node?.gpus?.isSliced)) return found;
  const { total_ram_gb, available_ram_gb, cpu_cores, cpu_name } = found;
  return { ...system, total_ram_gb, available_ram_gb, cpu_cores, cpu_name };
}

/** A machine from only its report, without a Node. */
export function machineFromReport(name: string, report: NodeReport): DensityMachine {
  return {
    name,
    kind: "Node",
    isSchedulable: true,
    wholeGpus: 0,
    system: systemOfReport(report),
    machine: nodeMachine(nodeOnlyReported(name, report)),
    ...installedBy(report),
  };
}

function installedBy({ runtimes, models }: NodeReport): Pick<DensityMachine, "runtimes" | "models"> {
  return {
    runtimes: runtimes.map(({ name, version }) => ({ name, version })),
    models: models.map(({ name, runtime, sizeBytes }) => ({
      source: name,
      runtime,
      sizeBytes,
    })),
  };
}
