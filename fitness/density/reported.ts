/** Adds a node's own report to its machine. Pure. */

import type { NodeReport, NodeReportRead } from "../../src/api/node-report.ts";
import { type System, systemOfReport } from "../llmfit/system.ts";
import { nodeMachine } from "../scoring/node.ts";
import { nodeAsReported, nodeOnlyReported } from "../scoring/reported.ts";
import type { DensityMachine } from "./place.ts";

export function withReport(place: DensityMachine, read: NodeReportRead | undefined): DensityMachine {
  if (read === undefined) return place;
  if (read.at === "unusable") return { ...place, machine: read };
  const { report } = read;
  const { availableBytes } = report.memory ?? {};
  return {
    ...place,
    system: systemBoth(place, report),
    machine: place.node === undefined ? place.machine : nodeMachine(nodeAsReported(place.node, read)),
    availableBytes,
    gpuUtilization: report.gpuUtilization,
    ...installedBy(report),
  };
}

/** The report's system, but with the Node's GPUs if the report lacks their memory, or if pods get parts of them. */
function systemBoth({ system, node }: DensityMachine, report: NodeReport): System {
  const found = systemOfReport(report);
  const isLess = found.gpu_vram_gb === null && (system.gpu_vram_gb !== null || !found.has_gpu);
  if (!system.has_gpu || !(isLess || node?.gpus?.isSliced)) return found;
  const { total_ram_gb, available_ram_gb, cpu_cores, cpu_name } = found;
  return { ...system, total_ram_gb, available_ram_gb, cpu_cores, cpu_name };
}

/** A machine from only its report, without a Node. */
export function machineFromReport(name: string, report: NodeReport): DensityMachine {
  return {
    name,
    kind: "Node",
    isSchedulable: true,
    wholeGpus: 0,
    system: systemOfReport(report),
    machine: nodeMachine(nodeOnlyReported(name, report)),
    ...installedBy(report),
  };
}

function installedBy({ runtimes, models }: NodeReport): Pick<DensityMachine, "runtimes" | "models"> {
  return {
    runtimes: runtimes.map(({ name, version }) => ({ name, version })),
    models: models.map(({ name, runtime, sizeBytes }) => ({
      source: name,
      runtime,
      sizeBytes,
    })),
  };
}
