/** A node of the cluster as a machine for models: its GPUs, or its allocatable memory. Pure. */
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import { deviceClassOf, vendorOfAccelerator } from "../../src/capacity/devices/devices.ts";
import { labeledGpu } from "../../src/capacity/devices/labeled.ts";
import type { NodeGpus, NodeRead, PodAccelerator } from "../../src/capacity/fitness.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { bandwidthOf } from "./gpus.ts";
import { type MachineRead, readMachine } from "./machine.ts";

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
    const { product = backend, bytesEach, isSliced, isShared } = labeledGpu(node, vendor)?.gpu ?? {};
    return { accelerator, backend, name: product.replaceAll("-", " "), count, bytesEach, isSliced, isShared };
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
function isOn(wanted: Accelerator, has: Accelerator): boolean {
  return wanted === has || wanted === "vulkan";
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
