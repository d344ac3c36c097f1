/** What a machine reports of itself as scores, placement and llmfit's shapes need it. Pure. */
import type { NodeReport } from "../telemetry/node-report.ts";
import { countOf, GPU_VENDORS, gpusInSystem, mainGpu, type System, sizeOf } from "./llmfit/system.ts";
import { bandwidthOf } from "./llmfit/tables.ts";
import { type MachineRead, readMachine } from "./machine.ts";
import { USABLE_SHARE } from "./node.ts";

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

/** All of it: on its GPUs, or on the processor. */
export function machineOfReport(name: string, report: NodeReport): MachineRead {
  const { memory, cpu } = report;
  const gpu = mainGpu(report.gpus);
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
  const { memory, cpu, gpus } = report;
  return {
    total_ram_gb: sizeOf(memory?.totalBytes) ?? 0,
    available_ram_gb: sizeOf(memory?.availableBytes) ?? 0,
    cpu_cores: countOf(cpu.cores),
    cpu_name: cpu.name ?? cpu.arch ?? "",
    ...gpusInSystem(gpus, memory?.totalBytes, cpu.arch),
  };
}
