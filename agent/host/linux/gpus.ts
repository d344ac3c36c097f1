/** Finds the GPUs of a Linux machine by the files of their drivers: every PCI graphics device of a vendor whose GPUs run models. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { MAX_GPUS, type ReportedGpu } from "../../../src/api/fields/reported-gpu.ts";
import { AMD_ARCHITECTURES } from "../../../src/capacity/devices/architectures.ts";
import { readKernelFile } from "./cgroup.ts";
import type { HardwareRoots } from "./roots.ts";

export interface FoundGpu extends Omit<ReportedGpu, "count"> {
  /** PCI address, such as 0000:03:00.0. */
  readonly bus: string;
  /** False if `name` is only derived from the vendor. */
  readonly isNamed: boolean;
}

type Files = Pick<HardwareRoots, "proc" | "sys" | "dev" | "udev">;

const VENDORS: Readonly<Record<string, ReportedGpu["vendor"]>> = {
  "0x10de": "nvidia",
  "0x1002": "amd",
  "0x8086": "intel",
};
/** Without this file under /dev no program can use the GPU; the /dev of a pod is not that of the machine. */
const DEVICE_NODE = { nvidia: "nvidiactl", amd: "dri", intel: "dri" } as const;
/** Files with the memory size, of the drivers amdgpu, xe and i915. */
const MEMORY_FILES = {
  nvidia: [],
  amd: ["device/mem_info_vram_total"],
  intel: ["device/tile0/physical_vram_size_bytes", "lmem_total_bytes"],
} as const;
const MAX_GPU_BYTES = 1024 ** 4;
const MAX_NAME = 256;
/** A smaller size is the part of the machine's memory that firmware reserves for a GPU inside the processor. */
const MIN_OWN_BYTES = 2 * 1024 ** 3;
const NVIDIA_UNIFIED = /\b(GB10|Thor|Orin|Tegra|nvgpu)\b/i;
const AMD_UNIFIED = /ryzen ai max/i;
/** The address of the GPU inside every Intel processor that has one. */
const INTEL_INTEGRATED = "0000:00:02.0";

/** Includes GPUs of unknown size. */
export function findLinuxGpus(
  files: Files,
  cpuName = "",
): { readonly gpus: readonly FoundGpu[]; readonly leftOut: readonly string[] } {
  const leftOut: string[] = [];
  const driven = new Set<string>();
  const all = [...nvidiaDriver(files), ...cards(files, cpuName, { leftOut, driven })];
  const gpus = all.filter(({ vendor, bus }, index) => {
    // NVIDIA's driver and the kernel list the same device.
    if (all.findIndex((one) => one.bus === bus) !== index) return false;
    const node = DEVICE_NODE[vendor];
    if (driven.has(bus) || existsSync(join(files.dev, node))) return true;
    leftOut.push(`GPU ${bus} (${vendor}): no /dev/${node}, so its driver is not loaded`);
    return false;
  });
  return { gpus, leftOut };
}

function nvidiaDriver({ proc }: Files): readonly FoundGpu[] {
  const folder = join(proc, "driver/nvidia/gpus");
  return entriesOf(folder).map((bus) => {
    const text = readKernelFile(join(folder, bus, "information")) ?? "";
    const name = /^Model:\s*(\S.*)$/m.exec(text)?.[1]?.trim();
    const unified = NVIDIA_UNIFIED.test(name ?? "");
    return { vendor: "nvidia", bus, name: name ?? "NVIDIA GPU", isNamed: name !== undefined, unified };
  });
}

interface Findings {
  readonly leftOut: string[];
  /** Addresses of GPUs whose driver is loaded, as it shows their memory. */
  readonly driven: Set<string>;
}

function cards(files: Files, cpuName: string, { leftOut, driven }: Findings): readonly FoundGpu[] {
  const folder = join(files.sys, "class/drm");
  const names = entriesOf(folder).filter((name) => /^card\d+$/.test(name));
  return names.flatMap((name) => {
    const card = join(folder, name);
    const vendorId = readKernelFile(join(card, "device/vendor"))?.trim().toLowerCase() ?? "";
    const vendor = VENDORS[vendorId];
    if (vendor === undefined) return [];
    const uevent = readKernelFile(join(card, "device/uevent")) ?? "";
    const bus = /^PCI_SLOT_NAME=(\S+)$/m.exec(uevent)?.[1] ?? name;
    const read = readMemory(card, MEMORY_FILES[vendor]);
    if (read.problem !== undefined) leftOut.push(`GPU ${bus}: ${read.problem}`);
    if (read.exists) driven.add(bus);
    const unified = isUnified({ vendor, bus }, cpuName, read);
    const gpu = { vendor, bus, unified, ...identityOf(card, { vendor, bus }, files) };
    return [unified || read.bytes === undefined ? gpu : { ...gpu, memoryBytes: read.bytes }];
  });
}

function identityOf(
  card: string,
  { vendor, bus }: Pick<FoundGpu, "vendor" | "bus">,
  files: Files,
): Pick<FoundGpu, "name" | "isNamed" | "arch"> {
  const found = nameOf(card, bus, files);
  const id = /^0x([0-9a-f]{4})$/.exec(readKernelFile(join(card, "device/device"))?.trim() ?? "")?.[1];
  // The PCI ID distinguishes GPUs without a name.
  const name = found ?? (id === undefined ? `${vendor} GPU` : `${vendor} GPU ${id}`);
  const arch = vendor === "amd" && id !== undefined ? AMD_ARCHITECTURES[id] : undefined;
  return { name, isNamed: found !== undefined, arch };
}

interface MemoryRead {
  /** True if the driver has a file with the memory size. */
  readonly exists: boolean;
  readonly bytes?: number;
  readonly problem?: string;
}

/** True if the GPU uses the machine's memory. */
function isUnified(
  { vendor, bus }: Pick<FoundGpu, "vendor" | "bus">,
  cpuName: string,
  { exists, bytes }: MemoryRead,
): boolean {
  if ((vendor === "amd" ? AMD_UNIFIED : NVIDIA_UNIFIED).test(cpuName)) return true;
  if (vendor === "intel" && !exists) return bus === INTEL_INTEGRATED;
  return bytes !== undefined && bytes < MIN_OWN_BYTES;
}

function readMemory(card: string, names: readonly string[]): MemoryRead {
  for (const name of names) {
    const text = readKernelFile(join(card, name))?.trim();
    if (text === undefined) continue;
    const bytes = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
    if (bytes > 0 && bytes <= MAX_GPU_BYTES) return { exists: true, bytes };
    return {
      exists: true,
      problem: `${name} says ${text.slice(0, 40)}, which is not a valid GPU memory size`,
    };
  }
  return { exists: false };
}

/** The name from the driver, or from udev's database of PCI devices. */
function nameOf(card: string, bus: string, { udev }: Files): string | undefined {
  const own = readKernelFile(join(card, "device/product_name"))?.trim();
  if (own !== undefined && own !== "") return own;
  const known = readKernelFile(join(udev, "data", `+pci:${bus}`)) ?? "";
  return /^E:ID_MODEL_FROM_DATABASE=(\S.*)$/m.exec(known)?.[1]?.trim();
}

/** Combines equal GPUs, in the order found. */
export function groupGpus(gpus: readonly FoundGpu[]): ReportedGpu[] {
  const groups = new Map<string, ReportedGpu>();
  for (const { bus: _, isNamed: __, ...gpu } of gpus) {
    const name = gpu.name.slice(0, MAX_NAME).toWellFormed();
    const key = JSON.stringify([gpu.vendor, name, gpu.memoryBytes, gpu.unified, gpu.arch]);
    groups.set(key, { ...gpu, name, count: (groups.get(key)?.count ?? 0) + 1 });
  }
  return [...groups.values()].slice(0, MAX_GPUS);
}

/** Empty if the folder cannot be read. */
export function entriesOf(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}
