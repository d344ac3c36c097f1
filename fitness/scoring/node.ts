/** A node of the cluster, with its own report, as a machine for models: its GPUs, or its allocatable memory. Pure. */
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { ReportedGpu } from "../../src/api/fields/reported-gpu.ts";
import type { NodeReport, NodeReportRead } from "../../src/api/node-report.ts";
import { deviceClassOf, vendorOfAccelerator } from "../../src/capacity/devices/devices.ts";
import { labeledGpu } from "../../src/capacity/devices/labeled.ts";
import type { NodeGpus, NodeRead, PodAccelerator } from "../../src/capacity/fitness.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { bandwidthOf, GPU_VENDORS, mainGpu } from "./gpus.ts";
import { type MachineRead, readMachine } from "./machine.ts";
import { gibOf } from "./units.ts";

/** noGpus: the node lacks the requested GPUs, so the scheduler excludes it. */
export type NodeMachine = MachineRead | { readonly at: "noGpus" };

const HOSTNAME_LABEL = "kubernetes.io/hostname";
/** A GPU sold with 24 GB has up to a tenth less for programs. */
export const USABLE_SHARE = 0.9;

/** Resources of the device plugins that count whole GPUs. */
const GPUS = [
  { vendor: "NVIDIA", accelerator: "cuda", backend: "CUDA", resource: "nvidia.com/gpu" },
  { vendor: "AMD", accelerator: "rocm", backend: "ROCm", resource: "amd.com/gpu" },
  { vendor: "Intel", accelerator: "intel", backend: "SYCL", resource: "gpu.intel.com/i915" },
] as const;

/** Resources that count whole GPUs. */
export const GPU_RESOURCES: readonly string[] = GPUS.map(({ resource }) => resource);

export function readNode(node: Node): NodeRead {
  const { metadata, status } = node;
  const { name, labels = {} } = metadata;
  const totalBytes = quantityOf(status?.capacity?.memory);
  return {
    name,
    hostname: labels[HOSTNAME_LABEL] ?? name,
    arch: status?.nodeInfo?.architecture ?? labels["kubernetes.io/arch"],
    totalBytes,
    allocatableBytes: quantityOf(status?.allocatable?.memory) ?? totalBytes,
    cores: quantityOf(status?.capacity?.cpu),
    gpus: gpusOf(node),
  };
}

function gpusOf(node: Node): NodeGpus | undefined {
  for (const { vendor, resource, accelerator, backend } of GPUS) {
    const count = Math.floor(quantityOf(node.status?.allocatable?.[resource]) ?? 0);
    if (!(count > 0 && count <= MAX_GPUS)) continue;
    const { gpu } = labeledGpu(node, vendor) ?? {};
    const { product = backend, arch, bytesEach, isSliced, isShared } = gpu ?? {};
    const name = product.replaceAll("-", " ");
    return { accelerator, backend, name, arch, count, bytesEach, isSliced, isShared };
  }
  return undefined;
}

const MAX_GPUS = 65_536;

/** The machine with all GPUs of the node, or with its allocatable memory if it has none. */
export function nodeMachine(node: NodeRead): MachineRead {
  if (node.unusable !== undefined) return { at: "unusable", why: node.unusable };
  return node.gpus === undefined ? cpuMachine(node) : gpuMachine(node, node.gpus, node.gpus.count);
}

/** The share of the node that one pod would get. */
export function nodeMachineFor(node: NodeRead, pod: PodAccelerator): NodeMachine {
  const { gpus, unusable } = node;
  const hasGpus = gpus !== undefined && gpus.count >= pod.gpus && isOn(pod.accelerator, gpus.accelerator);
  if (pod.gpus > 0 && !hasGpus) return { at: "noGpus" };
  if (unusable !== undefined) return { at: "unusable", why: unusable };
  if (pod.gpus === 0 || gpus === undefined) return cpuMachine(node);
  return gpuMachine(node, gpus, pod.gpus);
}

/** Vulkan computes on GPUs of every vendor. */
function isOn(requested: Accelerator, has: Accelerator): boolean {
  return requested === has || requested === "vulkan";
}

function cpuMachine({ name, totalBytes, allocatableBytes, cores }: NodeRead): MachineRead {
  return readMachine({
    name,
    chip: "",
    accelerator: "cpu",
    memoryBytes: totalBytes,
    budgetBytes: allocatableBytes,
    cpuCores: cores,
  });
}

function gpuMachine({ name, cores }: NodeRead, gpus: NodeGpus, count: number): MachineRead {
  if (gpus.bytesEach === undefined)
    return { at: "unusable", why: "no label has the memory size of its GPUs" };
  const memoryBytes = gpus.bytesEach * count;
  return readMachine({
    name,
    chip: gpus.name,
    accelerator: gpus.accelerator,
    memoryBytes,
    budgetBytes: Math.floor(memoryBytes * USABLE_SHARE),
    bandwidthGBs: bandwidthOf(gpus.name),
    deviceClass: gpus.isSliced ? undefined : classOfGpus(gpus, count),
    cpuCores: cores,
  });
}

/** Class of the GPUs that a pod would get. */
function classOfGpus({ accelerator, name: product, isShared }: NodeGpus, count: number): string | undefined {
  const vendor = vendorOfAccelerator(accelerator);
  return vendor && deviceClassOf({ gpu: { vendor, product, count, isShared } });
}

function quantityOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : parseQuantity(text);
}

const GIB = 1024 ** 3;
/** Kubernetes counts the same memory; some is set aside at boot. */
const MAX_RATIO = 2;

/** Adds the report's data to a node. A report that contradicts the Node makes the node unusable, with the reason. */
export function nodeAsReported(node: NodeRead, read: NodeReportRead | undefined): NodeRead {
  if (read === undefined) return node;
  if (read.at === "unusable") return { ...node, unusable: read.why };
  const { memory, cpu, gpus } = read.report;
  const gpu = gpuOf(node, gpus);
  const unusable =
    contradiction(memory?.totalBytes, node.totalBytes, "of memory") ??
    contradiction(gpu?.memoryBytes, node.gpus?.bytesEach, "in each GPU");
  if (unusable !== undefined) return { ...node, unusable };
  const { totalBytes } = memory ?? {};
  return {
    ...node,
    ...(totalBytes === undefined || node.totalBytes === undefined ? {} : limitedTo(totalBytes, node)),
    cores: cpu.cores ?? node.cores,
    gpus: node.gpus && gpusAsReported(node.gpus, gpu),
  };
}

/** The report's entry for the whole GPUs that a device plugin offers to pods. */
function gpuOf({ gpus: offered }: NodeRead, found: readonly ReportedGpu[]): ReportedGpu | undefined {
  if (offered === undefined || offered.isSliced) return undefined;
  return mainGpu(found.filter(({ vendor }) => GPU_VENDORS[vendor].accelerator === offered.accelerator));
}

/** A machine outside a cluster. Without a GPU of known dedicated memory it counts as a CPU machine. */
export function nodeOnlyReported(name: string, { memory, cpu, gpus }: NodeReport): NodeRead {
  const gpu = mainGpu(gpus.filter(({ unified, memoryBytes }) => !unified && memoryBytes !== undefined));
  return {
    name,
    hostname: name,
    arch: cpu.arch,
    cores: cpu.cores,
    totalBytes: memory?.totalBytes,
    allocatableBytes: memory?.availableBytes ?? memory?.totalBytes,
    gpus: gpu && { ...GPU_VENDORS[gpu.vendor], name: gpu.name, count: gpu.count, bytesEach: gpu.memoryBytes },
  };
}

function contradiction(
  said: number | undefined,
  known: number | undefined,
  what: string,
): string | undefined {
  if (said === undefined || known === undefined) return undefined;
  if (Math.max(said / known, known / said) <= MAX_RATIO) return undefined;
  return `its node report says ${(said / GIB).toFixed(2)} GiB ${what}, its Node ${gibOf(known)} GiB`;
}

function limitedTo(totalBytes: number, { allocatableBytes = totalBytes }: NodeRead) {
  return { totalBytes, allocatableBytes: Math.min(allocatableBytes, totalBytes) };
}

/** The device plugin's count of GPUs, with the memory from the driver. */
function gpusAsReported(gpus: NodeGpus, gpu: ReportedGpu | undefined): NodeGpus {
  const arch = gpus.arch ?? gpu?.arch;
  if (gpu?.memoryBytes === undefined) return { ...gpus, arch };
  return { ...gpus, name: gpu.name, arch, bytesEach: gpu.memoryBytes };
}
