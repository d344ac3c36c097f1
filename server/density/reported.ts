/** A node by its own report, where it has one. Nothing in a report is trusted: what contradicts the Node makes it unusable, with the reason. Pure. */
import { GPU_VENDORS, mainGpu } from "../../src/fitness/llmfit/system.ts";
import { bandwidthOf } from "../../src/fitness/llmfit/tables.ts";
import { type MachineRead, readMachine } from "../../src/fitness/machine.ts";
import { USABLE_SHARE } from "../../src/fitness/node.ts";
import { systemOfReport } from "../../src/fitness/reported.ts";
import type { NodeReport, NodeReportRead } from "../../src/telemetry/node-report.ts";
import type { Place } from "./place.ts";

const GIB = 1024 ** 3;
/** Kubernetes counts the same memory; some is set aside at boot. */
const FURTHEST_APART = 2;

export function withReport(place: Place, read: NodeReportRead | undefined): Place {
  if (read === undefined) return place;
  if (read.at === "unusable") return { ...place, machine: read };
  const { report } = read;
  const { availableBytes } = report.memory ?? {};
  return {
    ...place,
    system: systemOfReport(report),
    machine: contradiction(place, report) ?? machineOn(place, report),
    ...(availableBytes === undefined ? {} : { availableBytes }),
    runtimes: report.runtimes.map(({ name, version }) =>
      version === undefined ? { name } : { name, version },
    ),
    models: report.models.map(({ name, runtime, sizeBytes }) => ({
      ...{ source: name, runtime },
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
    })),
  };
}

function contradiction({ system }: Place, { memory }: NodeReport): MachineRead | undefined {
  const said = (memory?.totalBytes ?? 0) / GIB;
  const known = system.total_ram_gb;
  if (said === 0 || known === 0 || Math.max(said / known, known / said) <= FURTHEST_APART) return undefined;
  return {
    at: "unusable",
    why: `its node report says ${said.toFixed(2)} GiB of memory, its Node ${known} GiB`,
  };
}

/** GPUs count as far as a device plugin offers them to pods. */
function machineOn({ name, machine, wholeGpus }: Place, report: NodeReport): MachineRead {
  const { memory, cpu } = report;
  const gpu = mainGpu(report.gpus);
  if (wholeGpus === 0) {
    if (machine.at !== "known" || memory === undefined) return machine;
    const budgetBytes = Math.min(machine.machine.budgetBytes, memory.totalBytes);
    const memoryBytes = memory.totalBytes;
    return readMachine({ name, chip: "", accelerator: "cpu", memoryBytes, budgetBytes, cpuCores: cpu.cores });
  }
  if (gpu?.memoryBytes === undefined) return machine;
  const memoryBytes = gpu.memoryBytes * wholeGpus;
  return readMachine({
    ...{ name, chip: gpu.name, accelerator: GPU_VENDORS[gpu.vendor].accelerator, memoryBytes },
    budgetBytes: Math.floor(memoryBytes * USABLE_SHARE),
    bandwidthGBs: bandwidthOf(gpu.name),
    cpuCores: cpu.cores,
  });
}
