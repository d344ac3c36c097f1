/** A node by its own report, where it has one. Pure. */
import { nodeMachine } from "../../src/fitness/node.ts";
import { nodeAsReported, nodeOnlyReported, systemOfReport } from "../../src/fitness/reported.ts";
import type { NodeReport, NodeReportRead } from "../../src/telemetry/node-report.ts";
import type { Place } from "./place.ts";

export function withReport(place: Place, read: NodeReportRead | undefined): Place {
  if (read === undefined) return place;
  if (read.at === "unusable") return { ...place, machine: read };
  const { report } = read;
  const { availableBytes } = report.memory ?? {};
  return {
    ...place,
    system: systemOfReport(report),
    machine: place.node === undefined ? place.machine : nodeMachine(nodeAsReported(place.node, read)),
    ...(availableBytes === undefined ? {} : { availableBytes }),
    ...installedBy(report),
  };
}

/** A machine by its report alone: all of it, whether a cluster knows it or not. */
export function placeOfReport(name: string, report: NodeReport): Place {
  return {
    ...{ name, kind: "Node", isSchedulable: true, wholeGpus: 0 },
    ...{ system: systemOfReport(report), machine: nodeMachine(nodeOnlyReported(name, report)) },
    ...installedBy(report),
  };
}

function installedBy({ runtimes, models }: NodeReport): Pick<Place, "runtimes" | "models"> {
  return {
    runtimes: runtimes.map(({ name, version }) => (version === undefined ? { name } : { name, version })),
    models: models.map(({ name, runtime, sizeBytes }) => ({
      ...{ source: name, runtime },
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
    })),
  };
}
