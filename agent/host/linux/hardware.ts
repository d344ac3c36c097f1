/** Reads the memory, processor and GPUs of a Linux machine from files under a root, so that a pod can read its node. */
import { arch } from "node:os";
import { join } from "node:path";
import type { NodeReport } from "../../../src/api/node-report.ts";
import type { RunCommand } from "../../../src/util/command.ts";
import { readKernelFile } from "./cgroup.ts";
import { type FoundGpu, findLinuxGpus, groupGpus } from "./gpus.ts";
import { parseMeminfo } from "./parse.ts";
import type { HardwareRoots } from "./roots.ts";
import { readSystemGpus, readVendorGpus } from "./vendor.ts";

export type Hardware = Pick<NodeReport, "memory" | "cpu" | "gpus" | "leftOut">;

export interface HardwareReader {
  /** Reads memory each time; processor and GPUs once, and again after `forget`. */
  readonly read: () => Promise<Hardware>;
  /** Called when devices were added or removed. */
  readonly forget: () => void;
}

const MAX_BYTES = 64 * 1024 ** 4;

/** `run` finds the vendors' tools, such as nvidia-smi. */
export function createHardwareReader(roots: HardwareRoots, run: RunCommand): HardwareReader {
  let devices: Promise<Omit<Hardware, "memory">> | undefined;
  return {
    read: async () => {
      devices ??= readDevices(roots, run);
      const found = await devices;
      const memory = readMemory(roots);
      return { ...found, ...memory, leftOut: [...found.leftOut, ...memory.leftOut] };
    },
    forget: () => {
      devices = undefined;
    },
  };
}

async function readDevices(roots: HardwareRoots, run: RunCommand): Promise<Omit<Hardware, "memory">> {
  const cpu = readCpu(roots);
  const files = findLinuxGpus(roots, cpu.name);
  const vendorGpus = await readVendorGpus(files.gpus, run);
  const gpus = roots.isOwn ? await readSystemGpus(vendorGpus) : vendorGpus;
  return { cpu, gpus: groupGpus(gpus), leftOut: [...files.leftOut, ...gpus.flatMap(unknownMemory)] };
}

function unknownMemory({ bus, memoryBytes, unified }: FoundGpu): string[] {
  return memoryBytes === undefined && !unified ? [`GPU ${bus}: no file or tool reports its memory size`] : [];
}

/** A missing value, such as one that is not a number of digits, is reported in `leftOut`. */
function readMemory({ proc }: HardwareRoots): Pick<Hardware, "memory" | "leftOut"> {
  const values = parseMeminfo(readKernelFile(join(proc, "meminfo")) ?? "");
  const totalBytes = values.get("MemTotal");
  const availableBytes = values.get("MemAvailable");
  if (totalBytes === undefined || totalBytes === 0 || totalBytes > MAX_BYTES)
    return { leftOut: [`memory: MemTotal of ${join(proc, "meminfo")} is ${totalBytes ?? "missing"}`] };
  if (availableBytes === undefined || availableBytes > totalBytes)
    return { memory: { totalBytes }, leftOut: [`memory: MemAvailable is ${availableBytes ?? "missing"}`] };
  return { memory: { totalBytes, availableBytes }, leftOut: [] };
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", ia32: "386" };

function readCpu({ proc, sys }: HardwareRoots): NodeReport["cpu"] {
  const info = readKernelFile(join(proc, "cpuinfo")) ?? "";
  const name = ["model name", "Hardware", "Processor", "cpu model"]
    .map((key) => new RegExp(`^${key}\\s*: *(\\S.*)$`, "m").exec(info)?.[1]?.trim())
    .find((value) => value !== undefined);
  const listed = info.match(/^processor\s*:/gm)?.length;
  const cores = listed ?? coresIn(readKernelFile(join(sys, "devices/system/cpu/present")));
  return {
    name,
    cores: cores === undefined || cores > 4096 ? undefined : cores,
    arch: ARCHITECTURES[arch()] ?? arch(),
    avx512: avx512In(info),
  };
}

/** From `/proc/cpuinfo`; undefined on processors that are not x86. */
export function avx512In(cpuinfo: string): boolean | undefined {
  const flags = /^flags\s*:(.*)$/m.exec(cpuinfo)?.[1];
  return flags === undefined ? undefined : /\bavx512f\b/.test(flags);
}

/** Counts the entries of a list such as `0-3,8`. */
function coresIn(text: string | undefined): number | undefined {
  const ranges = (text ?? "").trim().matchAll(/(\d{1,5})(?:-(\d{1,5}))?/g);
  const count = [...ranges].reduce((sum, [, from, to = from]) => sum + Number(to) - Number(from) + 1, 0);
  return count > 0 ? count : undefined;
}
