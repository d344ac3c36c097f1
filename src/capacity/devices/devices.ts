/** The hardware of a Node or a Host in one vocabulary: what labels state, and the class of the machine. Pure. */

import type { Accelerator } from "../../api/fields/hardware.ts";

export type GpuVendor = "NVIDIA" | "AMD" | "Intel" | "Apple";

/** Accelerator of the GPUs of each vendor in pods. Vulkan runs on several vendors' GPUs. */
export const ACCELERATOR_OF_VENDOR: Partial<Readonly<Record<GpuVendor, Accelerator>>> = {
  NVIDIA: "cuda",
  AMD: "rocm",
  Intel: "intel",
};

export function vendorOfAccelerator(accelerator: Accelerator | undefined): GpuVendor | undefined {
  const known = Object.entries(ACCELERATOR_OF_VENDOR) as [GpuVendor, Accelerator][];
  return known.find(([, one]) => one === accelerator)?.[0];
}

export interface Gpu {
  readonly vendor: GpuVendor;
  /** Name of the product, for example NVIDIA-L40S or Apple M4 Max. */
  readonly product?: string | undefined;
  /** Memory of each GPU in bytes; for MIG, of each slice; for Apple, the memory of the machine. */
  readonly bytesEach?: number | undefined;
  /** For example sm_89, gfx942, apple-m4. */
  readonly arch?: string | undefined;
  /** The GPU computes on 4-bit weights at full speed. */
  readonly int4?: boolean | undefined;
  /** Number of GPUs or slices; GPU cores for Apple are in `cores`. */
  readonly count?: number | undefined;
  readonly cores?: number | undefined;
  /** Several pods share each GPU (time slicing or MPS), so its memory and its speed are not exclusive. */
  readonly isShared?: boolean | undefined;
  /** Pods get slices of the GPUs (MIG). */
  readonly isSliced?: boolean | undefined;
  /** The machine also has GPUs of other vendors, which the other facts do not describe. */
  readonly hasOtherVendors?: boolean | undefined;
}

/** Facts about a machine. An absent fact is unknown; a machine without GPUs has no `gpu`. */
export interface Devices {
  readonly gpu?: Gpu | undefined;
  readonly cpu?: {
    readonly name?: string | undefined;
    readonly cores?: number | undefined;
    readonly avx512?: boolean | undefined;
  };
}

const MAX_CLASS = 63;

/**
 * Class of machines that run a model equally fast: `apple-m4-max-40` (chip and GPU cores), `nvidia-l40s`, `nvidia-l40s-x4` with
 * several GPUs, `amd-gfx942-191gi` without a product name, `cpu-amd-epyc-9354-32`. Undefined if too little is known.
 */
export function deviceClassOf({ gpu, cpu }: Devices): string | undefined {
  if (gpu === undefined) return cpu?.name && slug(["cpu", cpu.name, cpu.cores]);
  const { vendor, product, arch, bytesEach, cores, count = 1, isShared } = gpu;
  if (gpu.hasOtherVendors === true) return undefined;
  const gibibytes = bytesEach === undefined ? undefined : `${Math.floor(bytesEach / 1024 ** 3)}gi`;
  if (vendor === "Apple") return product && slug([product, cores]);
  const name = product ?? (arch && gibibytes && `${arch}-${gibibytes}`);
  if (name === undefined) return undefined;
  return slug([vendor, name, count > 1 && `x${count}`, isShared && "shared"]);
}

/** Joins the parts as a valid key and label value, without a word that directly repeats the one before. */
function slug(parts: readonly (string | number | false | undefined)[]): string {
  const words = parts
    .filter((part) => part !== undefined && part !== false)
    .join("-")
    .toLowerCase()
    .replace(/\((r|tm)\)/g, "")
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  return words
    .filter((word, at) => word !== words[at - 1])
    .join("-")
    .slice(0, MAX_CLASS)
    .replace(/-+$/, "");
}
