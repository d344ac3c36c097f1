/** One machine that models can run on, from a Host or a Node: what it has, what engines may claim, what is installed. Pure. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { Host } from "../../src/api/host.ts";
import {
  countOf,
  cpuBackend,
  hostSystem,
  type System,
  sizeOf,
  WITHOUT_GPU,
} from "../../src/fitness/llmfit/system.ts";
import { bandwidthOf } from "../../src/fitness/llmfit/tables.ts";
import { type MachineRead, machineOf, readMachine } from "../../src/fitness/machine.ts";
import type { Node } from "../../src/kube/workload-objects.ts";

export interface Place {
  readonly name: string;
  readonly kind: "Host" | "Node";
  /** What is known to be wrong with it; undefined while it answers. */
  readonly silence?: string;
  /** When it was last heard of, as far as its object says, in ms since 1970. */
  readonly heardAtMs?: number;
  readonly isSchedulable: boolean;
  readonly system: System;
  readonly machine: MachineRead;
  /** GPUs that pods take as a whole; 0 where memory is shared. */
  readonly wholeGpus: number;
  readonly runtimes: readonly { readonly name: string; readonly version?: string }[];
  readonly models: readonly { readonly source: string; readonly sizeBytes?: number }[];
}

const GIB = 1024 ** 3;
/** A GPU sold with 24 GB has up to a tenth less for programs. */
const USABLE_SHARE = 0.9;

interface Gpus {
  readonly accelerator: Accelerator;
  readonly backend: string;
  readonly resource: string;
  /** Of one GPU, in bytes; undefined where the node does not say. */
  readonly memory: (labels: Readonly<Record<string, string>>) => number | undefined;
  readonly nameLabel: string;
}

/** By the device plugins' names, and the labels of the vendors' feature discovery. */
const GPUS: readonly Gpus[] = [
  {
    ...{ accelerator: "cuda", backend: "CUDA", resource: "nvidia.com/gpu" },
    memory: (labels) => scaled(labels["nvidia.com/gpu.memory"], 1024 ** 2),
    nameLabel: "nvidia.com/gpu.product",
  },
  {
    ...{ accelerator: "rocm", backend: "ROCm", resource: "amd.com/gpu" },
    memory: (labels) => gigabytes(labels["amd.com/gpu.vram"]),
    nameLabel: "amd.com/gpu.product-name",
  },
  {
    ...{ accelerator: "intel", backend: "SYCL", resource: "gpu.intel.com/i915" },
    memory: (labels) => scaled(labels["gpu.intel.com/memory.max"], 1),
    nameLabel: "gpu.intel.com/product",
  },
];

/** What a pod asks for that takes whole GPUs. */
export const GPU_RESOURCES: readonly string[] = GPUS.map(({ resource }) => resource);

export function placeOfHost(host: Host): Place {
  const { runtimes = [], models = [] } = host.status ?? {};
  const machine = machineOf(host);
  const silence = silenceOf(host);
  return {
    name: host.metadata.name,
    kind: "Host",
    ...(silence === undefined ? {} : { silence }),
    isSchedulable: !host.spec.unschedulable && !host.spec.drain,
    system: hostSystem(host, machine),
    machine,
    wholeGpus: 0,
    runtimes: runtimes.map(({ name, version }) => (version === undefined ? { name } : { name, version })),
    models: models.map(({ source, sizeBytes }) =>
      sizeBytes === undefined ? { source } : { source, sizeBytes },
    ),
  };
}

/** As the controller judges it, on its own clock. */
function silenceOf({ status }: Host): string | undefined {
  const reachable = getCondition(status?.conditions, "Reachable");
  if (reachable?.status === "False") return reachable.message;
  if (isConditionTrue(status?.conditions, "Lost")) return "declared lost";
  const hasReported = status?.info !== undefined || status?.memory !== undefined;
  return hasReported ? undefined : "its agent has not reported yet";
}

export function placeOfNode(node: Node): Place {
  const { spec, status, metadata } = node;
  const { name, labels = {} } = metadata;
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const heardAtMs = Date.parse(ready?.lastHeartbeatTime ?? "");
  const total = quantityOf(status?.capacity?.memory);
  const memory = {
    total,
    allocatable: quantityOf(status?.allocatable?.memory) ?? total,
    cores: quantityOf(status?.capacity?.cpu),
  };
  const gpus = gpusOf(status?.allocatable ?? {}, labels);
  const arch = status?.nodeInfo?.architecture ?? labels["kubernetes.io/arch"];
  return {
    name,
    kind: "Node",
    ...(ready?.status === "True" ? {} : { silence: ready?.message || "the node is not ready" }),
    ...(Number.isNaN(heardAtMs) ? {} : { heardAtMs }),
    isSchedulable: spec?.unschedulable !== true,
    system: nodeSystem(memory, arch, gpus),
    machine: nodeMachine(name, memory, gpus),
    wholeGpus: gpus?.count ?? 0,
    runtimes: [],
    models: [],
  };
}

function nodeSystem(
  { total, allocatable, cores }: NodeMemory,
  arch: string | undefined,
  gpus: NodeGpus | undefined,
): System {
  const base = {
    total_ram_gb: sizeOf(total) ?? 0,
    available_ram_gb: sizeOf(allocatable) ?? 0,
    cpu_cores: countOf(cores),
    cpu_name: arch ?? "",
  };
  if (gpus === undefined) return { ...base, ...WITHOUT_GPU, backend: cpuBackend(arch) };
  const { name, backend, count } = gpus;
  const vram = sizeOf(gpus.bytesEach) ?? null;
  return {
    ...base,
    ...{ has_gpu: true, gpu_vram_gb: vram, gpu_name: name, gpu_count: count, unified_memory: false },
    backend,
    gpus: [{ name, vram_gb: vram, backend, count, unified_memory: false }],
  };
}

interface NodeGpus {
  readonly accelerator: Accelerator;
  readonly backend: string;
  readonly name: string;
  readonly count: number;
  readonly bytesEach: number | undefined;
}

function gpusOf(
  allocatable: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>>,
): NodeGpus | undefined {
  for (const { resource, memory, nameLabel, accelerator, backend } of GPUS) {
    const count = countOf(quantityOf(allocatable[resource]));
    if (count === 0) continue;
    const name = (labels[nameLabel] ?? backend).replaceAll("-", " ");
    return { accelerator, backend, name, count, bytesEach: memory(labels) };
  }
  return undefined;
}

interface NodeMemory {
  readonly total: number | undefined;
  readonly allocatable: number | undefined;
  readonly cores: number | undefined;
}

/** On a GPU, the memory of all of them; else what Kubernetes lets pods have. */
function nodeMachine(
  name: string,
  { total, allocatable, cores }: NodeMemory,
  gpus: NodeGpus | undefined,
): MachineRead {
  if (gpus === undefined)
    return readMachine({
      ...{ name, chip: "", accelerator: "cpu", memoryBytes: total, budgetBytes: allocatable },
      cpuCores: cores,
    });
  const { accelerator, count, bytesEach } = gpus;
  if (bytesEach === undefined) return { at: "unusable", why: "no label says how much memory its GPUs have" };
  const all = bytesEach * count;
  return readMachine({
    ...{ name, chip: gpus.name, accelerator, memoryBytes: all },
    budgetBytes: Math.floor(all * USABLE_SHARE),
    bandwidthGBs: bandwidthOf(gpus.name),
    cpuCores: cores,
  });
}

function quantityOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : parseQuantity(text);
}

function scaled(text: string | undefined, factor: number): number | undefined {
  const value = Number(text);
  return text !== undefined && value > 0 ? value * factor : undefined;
}

/** AMD writes 192G and means GiB. */
function gigabytes(text: string | undefined): number | undefined {
  return scaled(/^(\d{1,6})G$/.exec(text ?? "")?.[1], GIB);
}
