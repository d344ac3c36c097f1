/** GPUs of a Node as its labels and its device plugin state them. Labels are not trusted: invalid values are dropped. Pure. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import type { Node } from "../../kube/workload-objects.ts";
import { AMD_ARCHITECTURES, amdInt4, intelArchitecture, nvidiaArchitecture } from "./architectures.ts";
import type { Gpu, GpuVendor } from "./devices.ts";

type Labels = Readonly<Record<string, string>>;
export type NodeGpuVendor = Exclude<GpuVendor, "Apple">;
export type LabeledNode = Pick<Node, "metadata" | "status">;

/** Vendors in the order in which a node with GPUs of several vendors is described. */
export const NODE_GPU_VENDORS: readonly NodeGpuVendor[] = ["NVIDIA", "AMD", "Intel"];

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const MAX_BYTES = 1024 ** 4;
const MAX_COUNT = 1024;
const MIG_RESOURCES = /^nvidia\.com\/mig-/;

interface Labeler {
  readonly resources: RegExp;
  readonly labels: RegExp;
  /** Reads the labels. `offered` is the number of GPUs, slices or shares that the device plugin has registered. */
  readonly read: (labels: Labels, offered: number | undefined) => Omit<Gpu, "vendor">;
  /** Classes of PCI devices without those of GPUs inside processors. */
  readonly pci: RegExp;
}

const LABELERS: Readonly<Record<NodeGpuVendor, Labeler>> = {
  NVIDIA: {
    resources: /^nvidia\.com\/(gpu|mig-)/,
    labels: /^nvidia\.com\/(gpu\.(product|memory|count)|mig-.+\.(count|memory))$/,
    read: readNvidia,
    pci: /\/pci-((0300|0302|0380|1200)_)?10de(_\w+)?\.present$/,
  },
  AMD: {
    resources: /^amd\.com\//,
    labels: /^(beta\.)?amd\.com\/gpu\./,
    read: readAmd,
    pci: /\/pci-(0302|0380|1200)_1002(_\w+)?\.present$/,
  },
  Intel: {
    resources: /^gpu\.intel\.com\/(i915|xe)$/,
    labels: /^gpu\.intel\.com\/(product|family|device\.count|device-id\..+|memory\.max)$/,
    read: readIntel,
    pci: /\/pci-(0302|0380|1200)_8086(_\w+)?\.present$/,
  },
};

export interface LabeledGpu {
  readonly gpu: Gpu;
  /** False if only a device plugin or a PCI label shows the GPU. */
  readonly hasLabeler: boolean;
}

/** Undefined if the node has no GPU of this vendor, or if only labels of a removed labeler say so. */
export function labeledGpu(
  { metadata: { labels = {} }, status = {} }: LabeledNode,
  vendor: NodeGpuVendor,
): LabeledGpu | undefined {
  const labeler = LABELERS[vendor];
  const keys = Object.keys(labels);
  const allocatable = offeredIn(status.allocatable, labeler.resources);
  const hasLabels = keys.some((key) => labeler.labels.test(key));
  if ((allocatable ?? 0) === 0) {
    // The kubelet keeps a resource at 0 after its plugin was removed or its last GPU failed.
    if (allocatable !== undefined) return undefined;
    // Without a device plugin, the time stamp shows that the labeler has run.
    const isLabeled = hasLabels && vendor === "NVIDIA" && Number(labels["nvidia.com/gfd.timestamp"]) > 0;
    const isOnBus = keys.some((key) => labeler.pci.test(key) && labels[key] === "true");
    if (!isLabeled) return isOnBus ? { gpu: { vendor }, hasLabeler: false } : undefined;
  }
  // Allocatable lacks GPUs that are unhealthy, and labels count them.
  const offered = offeredIn(status.capacity, labeler.resources) || allocatable;
  if (hasLabels) return { gpu: { vendor, ...labeler.read(labels, offered) }, hasLabeler: true };
  const isSliced = (offeredIn(status.allocatable, MIG_RESOURCES) ?? 0) > 0 || undefined;
  return { gpu: vendor === "NVIDIA" ? { vendor, isSliced } : { vendor }, hasLabeler: false };
}

/** Undefined if the node has no such resource. */
function offeredIn(list: Labels | undefined, resources: RegExp): number | undefined {
  const counts = Object.entries(list ?? {})
    .filter(([name]) => resources.test(name))
    .map(([, count]) => Math.floor(parseQuantity(count) ?? 0));
  return counts.length === 0 ? undefined : counts.reduce((sum, count) => sum + count, 0);
}

function readNvidia(labels: Labels, offered: number | undefined): Omit<Gpu, "vendor"> {
  const of = (name: string) => labels[`nvidia.com/gpu.${name}`];
  const [product, strategy = "none"] = [of("product"), labels["nvidia.com/mig.strategy"]];
  const count = countIn(of("count"));
  const replicas = countIn(of("replicas")) ?? 1;
  const isShared = replicas > 1 || product?.endsWith("-SHARED") === true || undefined;
  const isSliced = strategy !== "none" || product?.includes("-MIG-") === true || undefined;
  const gpu = { ...nvidiaArchitecture(of("compute.major"), of("compute.minor")), isShared, isSliced };
  const slices = strategy === "mixed" ? migSlices(labels, product) : [];
  if (slices.length > 0) {
    const [slice] = slices;
    // Slices of several sizes, or slices beside whole GPUs, have no common description.
    return slices.length === 1 && slice?.count === offered ? { ...gpu, ...slice } : gpu;
  }
  // The labels describe one of several kinds of GPUs.
  if (isMismatch(count, offered, replicas)) return { isShared, isSliced };
  const bytesEach = sizeIn(of("memory"), MIB);
  return { ...gpu, product: product?.replace(/-SHARED$/, ""), bytesEach, count };
}

function migSlices(labels: Labels, product: string | undefined) {
  return Object.keys(labels).flatMap((key) => {
    const [, slice, profile] = /^nvidia\.com\/(mig-(\d+g\.\d+gb[\w.]*))\.count$/.exec(key) ?? [];
    const count = countIn(labels[key]);
    if (slice === undefined || count === undefined) return [];
    const bytesEach = sizeIn(labels[`nvidia.com/${slice}.memory`], MIB);
    return [{ product: product && `${product}-MIG-${profile}`, bytesEach, count }];
  });
}

function readAmd(labels: Labels, offered: number | undefined): Omit<Gpu, "vendor"> {
  const [device, vram, product] = ["device-id", "vram", "product-name"].map((name) => amdFact(labels, name));
  const count = device?.count ?? vram?.count ?? offered;
  const isMixed = [device, vram, product].some((fact) => fact?.value === undefined && fact !== undefined);
  if (isMixed || isMismatch(count, offered)) return {};
  const arch = AMD_ARCHITECTURES[device?.value?.toLowerCase() ?? ""];
  // The label 191G means GiB.
  const bytesEach = sizeIn(/^(\d{1,4})G$/.exec(vram?.value ?? "")?.[1], GIB);
  return { product: product?.value, bytesEach, arch, int4: amdInt4(arch), count: countIn(String(count)) };
}

/** Reads `amd.com/gpu.NAME=VALUE` and the older `beta.amd.com/gpu.NAME.VALUE=COUNT`. Several values leave `value` undefined. */
function amdFact(
  labels: Labels,
  name: string,
): { readonly value: string | undefined; readonly count: number | undefined } | undefined {
  const values = new Set<string>();
  let count: number | undefined;
  for (const [key, text] of Object.entries(labels)) {
    const [, , more] = /^(beta\.)?amd\.com\/gpu\.(.+)$/.exec(key) ?? [];
    if (more === name) values.add(text);
    const counted = countIn(text);
    if (more?.startsWith(`${name}.`) !== true || counted === undefined) continue;
    values.add(more.slice(name.length + 1));
    count = (count ?? 0) + counted;
  }
  const [value] = values;
  return values.size === 0 ? undefined : { value: values.size === 1 ? value : undefined, count };
}

function readIntel(labels: Labels, offered: number | undefined): Omit<Gpu, "vendor"> {
  const of = (name: string) => labels[`gpu.intel.com/${name}`];
  // A plugin that shares its GPUs offers a multiple of them, so one offered GPU is one GPU.
  const count = countIn(of("device.count")) ?? (offered === 1 ? 1 : undefined);
  const kinds = Object.keys(labels).flatMap((key) => /\/device-id\.([\w-]+)\.present$/.exec(key)?.[1] ?? []);
  const shares = (offered ?? 0) / (count ?? 1);
  if (new Set(kinds).size > 1 || (count !== undefined && offered !== undefined && !Number.isInteger(shares)))
    return {};
  const product = of("product");
  const sum = sizeIn(of("memory.max"), 1, MAX_BYTES * (count ?? 1));
  return {
    product,
    ...intelArchitecture(product ?? of("family")),
    count,
    bytesEach: sum === undefined || count === undefined ? undefined : Math.floor(sum / count),
    isShared: (count !== undefined && shares > 1) || undefined,
  };
}

/** Labels assume that all GPUs of a node are equal, and count only one kind of them. */
function isMismatch(count: number | undefined, offered: number | undefined, replicas = 1): boolean {
  return count !== undefined && offered !== undefined && count * replicas !== offered;
}

function countIn(text: string | undefined): number | undefined {
  const count = /^\d{1,5}$/.test(text ?? "") ? Number(text) : 0;
  return count > 0 && count <= MAX_COUNT ? count : undefined;
}

function sizeIn(text: string | undefined, unit: number, mostBytes = MAX_BYTES): number | undefined {
  const bytes = /^\d{1,16}$/.test(text ?? "") ? Number(text) * unit : 0;
  return bytes > 0 && bytes <= mostBytes ? bytes : undefined;
}
