/** The hardware of a cluster node, from ResourceSlices, labels and the report of `metalbridge node`, in this order; and its cost. Pure. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import { ANNOTATION_COST } from "../../api/group.ts";
import type { NodeReport } from "../../api/node-report.ts";
import type { DeviceAttribute, ResourceDevice, ResourceSlice } from "../../kube/workload-objects.ts";
import { amdInt4, intelArchitecture, nvidiaArchitecture } from "./architectures.ts";
import type { Devices, Gpu } from "./devices.ts";
import { type LabeledNode, labeledGpu, NODE_GPU_VENDORS, type NodeGpuVendor } from "./labeled.ts";
import { reportedGpu } from "./reported.ts";

/**
 * Total for any input: invalid values are absent. `slices` are those of this node. The report adds GPUs only if no labeler runs.
 */
export function devicesOfNode(
  node: LabeledNode,
  slices: readonly ResourceSlice[],
  report: Pick<NodeReport, "cpu" | "gpus"> | undefined,
): Devices {
  const cores = report?.cpu.cores ?? Math.floor(parseQuantity(node.status?.capacity?.cpu ?? "") ?? 0);
  return {
    gpu: gpuOf(node, slices, report),
    cpu: {
      name: report?.cpu.name,
      cores: cores > 0 ? cores : undefined,
      avx512: avx512In(node.metadata.labels ?? {}) ?? report?.cpu.avx512,
    },
  };
}

function gpuOf(
  node: LabeledNode,
  slices: readonly ResourceSlice[],
  report: Pick<NodeReport, "gpus"> | undefined,
): Gpu | undefined {
  const reported = reportedGpu(report?.gpus ?? []);
  const found = NODE_GPU_VENDORS.flatMap((vendor) => {
    const published = slicedGpu(slices, vendor);
    const labeled = labeledGpu(node, vendor);
    if (published !== undefined) return withArchitecture(published, labeled?.gpu);
    if (labeled === undefined) return [];
    const isDescribed = labeled.hasLabeler || labeled.gpu.isSliced;
    return isDescribed || reported?.vendor !== vendor ? labeled.gpu : reported;
  });
  const [gpu = reported] = found;
  const vendors = new Set(
    [...found, ...(reported === undefined ? [] : [reported])].map(({ vendor }) => vendor),
  );
  return gpu && vendors.size > 1 ? { ...gpu, hasOtherVendors: true } : gpu;
}

/** ResourceSlices of AMD's driver have no architecture. */
function withArchitecture(published: Gpu, labeled: Gpu | undefined): Gpu {
  if (published.arch !== undefined || published.product === undefined) return published;
  return { ...published, arch: labeled?.arch, int4: labeled?.int4 };
}

const CPUID = "feature.node.kubernetes.io/cpu-cpuid.";

/** NFD has no label for a missing feature. */
function avx512In(labels: Readonly<Record<string, string>>): boolean | undefined {
  if (labels[`${CPUID}AVX512F`] === "true") return true;
  return Object.keys(labels).some((key) => key.startsWith(CPUID)) ? false : undefined;
}

/** Drivers of dynamic resource allocation, which publish GPUs in ResourceSlices. */
const DRIVERS: Readonly<Record<NodeGpuVendor, string>> = {
  NVIDIA: "gpu.nvidia.com",
  AMD: "gpu.amd.com",
  Intel: "gpu.intel.com",
};
const MAX_BYTES = 1024 ** 4;

/** The GPUs of one vendor in the slices of one node. Facts in which they differ are absent. */
function slicedGpu(slices: readonly ResourceSlice[], vendor: NodeGpuVendor): Gpu | undefined {
  const driver = DRIVERS[vendor];
  const devices = currentSlices(slices.filter(({ spec }) => spec.driver === driver))
    .flatMap(({ spec }) => spec.devices ?? [])
    .map((device) => readDevice(device, driver, vendor))
    .filter((device) => device !== undefined);
  const [first, ...others] = devices;
  if (first === undefined) return undefined;
  const { isSliced } = first;
  const arch = others.every((other) => other.arch === first.arch) ? first.arch : undefined;
  const int4 = others.every((other) => other.int4 === first.int4) ? first.int4 : undefined;
  const isUniform = others.every(
    (other) =>
      other.product === first.product && other.bytesEach === first.bytesEach && other.isSliced === isSliced,
  );
  if (!isUniform) return { vendor, arch, int4 };
  return { ...first, arch, int4, count: devices.length };
}

/** While a driver updates its pool, slices of the previous generation remain. */
function currentSlices(slices: readonly ResourceSlice[]): readonly ResourceSlice[] {
  const newest = new Map<string, number>();
  for (const { spec } of slices)
    newest.set(spec.pool.name, Math.max(spec.pool.generation, newest.get(spec.pool.name) ?? 0));
  return slices.filter(({ spec }) => spec.pool.generation === newest.get(spec.pool.name));
}

function readDevice(
  { attributes = {}, capacity = {}, consumesCounters }: ResourceDevice,
  driver: string,
  vendor: NodeGpuVendor,
): Gpu | undefined {
  const attribute = (name: string): DeviceAttribute =>
    attributes[name] ?? attributes[`${driver}/${name}`] ?? {};
  const text = (name: string) => attribute(name).string?.trim() || undefined;
  const profile = text("profile");
  const isSliced = text("type") === "mig" || profile !== undefined || undefined;
  // These slices do not exist before they are allocated; the list also has their whole GPU.
  if (isSliced && consumesCounters !== undefined) return undefined;
  const name = text("productName") ?? text("model");
  const product = isSliced ? name && profile && `${name}-MIG-${profile}` : name;
  const bytes = parseQuantity((capacity.memory ?? capacity[`${driver}/memory`])?.value ?? "") ?? 0;
  const bytesEach = bytes > 0 && bytes <= MAX_BYTES ? Math.floor(bytes) : undefined;
  const [major, minor] = attribute("cudaComputeCapability").version?.split(".") ?? [];
  const arch = {
    NVIDIA: () => nvidiaArchitecture(major, minor),
    AMD: () => amdArchitecture(text("architecture")),
    Intel: () => intelArchitecture(name ?? text("family")),
  }[vendor]();
  return { vendor, product, bytesEach, ...arch, isSliced };
}

function amdArchitecture(name: string | undefined): Pick<Gpu, "arch" | "int4"> {
  const arch = /^gfx[0-9a-f]{3,4}$/.exec(name ?? "")?.[0];
  return { arch, int4: amdInt4(arch) };
}

interface AnnotatedNode {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> | undefined };
}

/** The relative cost that the annotation states. Undefined without it, or if it is no cost. */
export function costOfNode({ metadata }: AnnotatedNode): number | undefined {
  const text = metadata.annotations?.[ANNOTATION_COST]?.trim();
  const cost = text === undefined || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(cost) && cost >= 0 ? cost : undefined;
}
