/** `metalbridge report`: reports hosts, nodes and the placements on them, as Markdown or JSON. */

import type { Command } from "commander";
import { cost } from "../fitness/density/cost.ts";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { renderDensityReport } from "../fitness/density/report.ts";
import { nodeRow } from "../fitness/density/views.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import { fillDensity } from "./cluster/density.ts";
import { addClusterFlags, type ClusterFlags, formatOption, parseName } from "./cluster/flags.ts";
import { readLeadershipNote } from "./cluster/leadership.ts";
import { printJson, writeOut } from "./program/output.ts";

interface ReportFlags extends ClusterFlags {
  readonly markdown?: boolean;
  readonly output?: "json";
  readonly catalog?: readonly string[];
}

/** Options and action of the verb. */
export function configureReport(command: Command): void {
  addClusterFlags(command)
    .option(
      "-n, --namespace <name>",
      "only services and replicas of this namespace (default: all; without the right to list all, that of the context)",
      parseName,
    )
    .option("--markdown", "print Markdown (default)")
    .addOption(formatOption("json"))
    .addOption(catalogOption())
    .action(report);
}

async function report({ output, catalog, namespace, ...flags }: ReportFlags): Promise<void> {
  const { records } = await readCatalogFiles(catalog);
  const density = createDensity(createFitIndex(records));
  const [seen, controller] = await withCluster("report", flags, (cluster) =>
    Promise.all([fillDensity(density, cluster, namespace), readLeadershipNote(cluster, Date.now())]),
  );
  const now = { wallMs: Date.now(), monotonicMs: performance.now() };
  if (output !== "json") return writeOut(renderDensityReport(density, { ...seen, controller }, now));
  const nodes = density.sites().map((site) => nodeRow(density, site, now));
  const { areMachinesHidden, missing } = seen;
  printJson({
    controller,
    missing,
    nodes: areMachinesHidden && nodes.length === 0 ? undefined : nodes,
    ...cost(density),
  });
}
