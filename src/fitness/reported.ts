/** What a machine reports of itself as scores, placement and llmfit's shapes need it. Pure. */
import type { NodeReport } from "../telemetry/node-report.ts";
import { countOf, gpusInSystem, type System, sizeOf } from "./llmfit/system.ts";

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
