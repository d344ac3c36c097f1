/** GPUs that the agent of a Linux host or `metalbridge node` has found. Pure. */
import type { ReportedGpu } from "../../api/fields/reported-gpu.ts";
import { amdInt4, intelArchitecture, nvidiaArchitecture } from "./architectures.ts";
import type { Gpu } from "./devices.ts";
import type { NodeGpuVendor } from "./labeled.ts";

const VENDORS: Readonly<Record<ReportedGpu["vendor"], NodeGpuVendor>> = {
  nvidia: "NVIDIA",
  amd: "AMD",
  intel: "Intel",
};

/** Undefined if no GPU has its own memory: a GPU inside the processor does not make a machine a GPU machine. */
export function reportedGpu(gpus: readonly ReportedGpu[]): Gpu | undefined {
  const dedicated = gpus.filter(({ unified, vendor }) => !unified || vendor === "nvidia");
  const [first, ...others] = dedicated;
  if (first === undefined) return undefined;
  const vendor = VENDORS[first.vendor];
  // GPUs of several kinds have no common description.
  const hasOtherVendors = others.some((gpu) => gpu.vendor !== first.vendor) || undefined;
  if (others.length > 0) return { vendor, hasOtherVendors };
  const { name, memoryBytes: bytesEach, count } = first;
  // Without a name or an ID, all GPUs of a vendor would be one product.
  const product = /^(nvidia|amd|intel) GPU$/i.test(name) ? undefined : name;
  return { vendor, product, bytesEach, count, ...architectureOf(first) };
}

function architectureOf({ vendor, name, arch }: ReportedGpu): Pick<Gpu, "arch" | "int4"> {
  if (vendor === "intel") return intelArchitecture(name);
  if (vendor === "amd") return { arch, int4: amdInt4(arch) };
  const [, major, minor] = /^sm_(\d+)(\d)$/.exec(arch ?? "") ?? [];
  return nvidiaArchitecture(major, minor);
}
