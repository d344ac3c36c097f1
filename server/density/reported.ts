/** A node by its own report, where it has one. Pure. */
import { nodeMachine } from "../../src/fitness/node.ts";
import { nodeAsReported, systemOfReport } from "../../src/fitness/reported.ts";
import type { NodeReportRead } from "../../src/telemetry/node-report.ts";
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
    runtimes: report.runtimes.map(({ name, version }) =>
      version === undefined ? { name } : { name, version },
    ),
    models: report.models.map(({ name, runtime, sizeBytes }) => ({
      ...{ source: name, runtime },
      ...(sizeBytes === undefined ? {} : { sizeBytes }),
    })),
  };
}
