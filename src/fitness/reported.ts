/** What a machine reports of itself as scores, placement and llmfit's shapes need it. Pure. */
import type { Accelerator } from "../api/fields/hardware.ts";
import type { NodeReport, ReportedGpu } from "../telemetry/node-report.ts";
import { countOf, cpuBackend, type System, sizeOf } from "./llmfit/system.ts";
import { bandwidthOf } from "./llmfit/tables.ts";
import { type MachineRead, readMachine } from "./machine.ts";
import { USABLE_SHARE } from "./node.ts";

interface Vendor {
  readonly accelerator: Accelerator;
  /** As llmfit calls it. */
  readonly backend: string;
}

export const GPU_VENDORS: Readonly<Record<ReportedGpu["vendor"], Vendor>> = {
  nvidia: { accelerator: "cuda", backend: "CUDA" },
  amd: { accelerator: "rocm", backend: "ROCm" },
  intel: { accelerator: "intel", backend: "SYCL" },
};
/** What a GPU may take of the machine's own memory: the system runs in it too. */
const UNIFIED_SHARE = 0.75;

/** The machine that it is, and what is installed there, from its own report. */
export function factsOfReport(name: string, report: NodeReport) {
  return {
    system: systemOfReport(report),
    machine: machineOfReport(name, report),
    runtimes: report.runtimes,
    installed: report.models,
  };
}

/** The GPU that models would run on: the one with most memory of its own, else one that shares the machine's. */
export function mainGpu({ gpus }: NodeReport): ReportedGpu | undefined {
  const size = ({ memoryBytes = 0 }: ReportedGpu): number => memoryBytes;
  return [...gpus].sort((a, b) => Number(a.unified) - Number(b.unified) || size(b) - size(a))[0];
}

/** All of it: on its GPUs, or on the processor. */
export function machineOfReport(name: string, report: NodeReport): MachineRead {
  const { memory, cpu } = report;
  const gpu = mainGpu(report);
  if (memory === undefined) return { at: "unusable", why: report.leftOut[0] ?? "its memory is not known" };
  const { totalBytes, availableBytes = totalBytes } = memory;
  const base = { name, cpuCores: cpu.cores };
  if (gpu === undefined || (gpu.unified && gpu.vendor === "intel"))
    return readMachine({
      ...{ ...base, chip: "", accelerator: "cpu" },
      ...{ memoryBytes: totalBytes, budgetBytes: availableBytes },
    });
  const own = gpu.unified ? totalBytes : gpu.memoryBytes;
  if (own === undefined) return { at: "unusable", why: `nothing says how much memory ${gpu.name} has` };
  const memoryBytes = own * (gpu.unified ? 1 : gpu.count);
  return readMachine({
    ...{ ...base, chip: gpu.name, accelerator: GPU_VENDORS[gpu.vendor].accelerator, memoryBytes },
    budgetBytes: Math.floor(memoryBytes * (gpu.unified ? UNIFIED_SHARE : USABLE_SHARE)),
    bandwidthGBs: bandwidthOf(gpu.name),
  });
}

/** llmfit's `system` object: GB are GiB, with two decimals. */
export function systemOfReport(report: NodeReport): System {
  const { memory, cpu } = report;
  const main = mainGpu(report);
  const gpus = report.gpus.map((gpu) => ({
    name: gpu.name,
    vram_gb: sizeOf(gpu.unified ? memory?.totalBytes : gpu.memoryBytes) ?? null,
    backend: GPU_VENDORS[gpu.vendor].backend,
    count: gpu.count,
    unified_memory: gpu.unified,
  }));
  const first = gpus[main === undefined ? -1 : report.gpus.indexOf(main)];
  return {
    total_ram_gb: sizeOf(memory?.totalBytes) ?? 0,
    available_ram_gb: sizeOf(memory?.availableBytes) ?? 0,
    cpu_cores: countOf(cpu.cores),
    cpu_name: cpu.name ?? cpu.arch ?? "",
    has_gpu: first !== undefined,
    gpu_vram_gb: first?.vram_gb ?? null,
    gpu_name: first?.name ?? null,
    gpu_count: gpus.reduce((sum, { count }) => sum + count, 0),
    unified_memory: first?.unified_memory ?? false,
    backend: first?.backend ?? cpuBackend(cpu.arch),
    gpus,
  };
}
