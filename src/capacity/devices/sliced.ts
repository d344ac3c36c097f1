/** GPUs of a node as the drivers of dynamic resource allocation publish them in ResourceSlices. Pure. */
import { parseQuantity } from "../../api/fields/quantity.ts";
import type { DeviceAttribute, ResourceDevice, ResourceSlice } from "../../kube/workload-objects.ts";
import { amdInt4, intelArchitecture, nvidiaArchitecture } from "./architectures.ts";
import type { Gpu } from "./devices.ts";
import type { NodeGpuVendor } from "./labeled.ts";

const DRIVERS: Readonly<Record<NodeGpuVendor, string>> = {
  NVIDIA: "gpu.nvidia.com",
  AMD: "gpu.amd.com",
  Intel: "gpu.intel.com",
};
const MAX_BYTES = 1024 ** 4;

/** The GPUs of one vendor in the slices of one node. Facts in which they differ are absent. */
export function slicedGpu(slices: readonly ResourceSlice[], vendor: NodeGpuVendor): Gpu | undefined {
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
