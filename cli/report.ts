/** `metalbridge report`: hosts, nodes and what is placed on them, for people and agents. */

import { type Command, Option } from "commander";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { renderDensityReport } from "../fitness/density/report.ts";
import { cost, nodeRow } from "../fitness/density/views.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import { fillDensity } from "./cluster/density.ts";
import type { ClusterFlags } from "./cluster/flags.ts";
import { writeOut } from "./program/output.ts";

interface ReportFlags extends ClusterFlags {
  readonly markdown?: boolean;
  readonly output?: "json";
  readonly catalog?: readonly string[];
}

/** Options and action of the verb. */
export function configureReport(command: Command): void {
  command
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--markdown", "as Markdown, which is the default")
    .addOption(new Option("-o, --output <format>", "how else to print it").choices(["json"]))
    .addOption(catalogOption())
    .action(report);
}

async function report({ output, catalog, ...flags }: ReportFlags): Promise<void> {
  const { records } = await readCatalogFiles(catalog);
  const density = createDensity(createFitIndex(records));
  await withCluster("report", flags, (cluster) => fillDensity(density, cluster));
  const now = { wallMs: Date.now(), monotonicMs: performance.now() };
  const nodes = () => density.sites().map((site) => nodeRow(density, site, now));
  const text =
    output === "json"
      ? `${JSON.stringify({ nodes: nodes(), ...cost(density) }, undefined, 2)}\n`
      : renderDensityReport(density, now);
  writeOut(text);
}
