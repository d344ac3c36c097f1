/** `metalbridge report`: hosts, nodes and what is placed on them, for people and agents. */
import { type Command, Option } from "commander";
import { heldByPod, heldByReplica, isOver, reportIn } from "../server/cluster.ts";
import { createDensity, type Density } from "../server/density/density.ts";
import { createFits } from "../server/density/fits.ts";
import { placeOfHost, placeOfNode } from "../server/density/place.ts";
import { renderReport } from "../server/density/report.ts";
import { withReport } from "../server/density/reported.ts";
import { cost, nodeRow } from "../server/density/views.ts";
import { LABEL_NODE_REPORT, LABEL_SERVICE_UID, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { keyOf } from "../src/api/names.ts";
import { CONFIG_MAPS, NODES, PODS } from "../src/kube/kinds.ts";
import type { ConfigMap } from "../src/kube/objects.ts";
import { nodeReportName } from "../src/telemetry/node-report.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import type { ClusterFlags } from "./cluster/flags.ts";

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
  const density = createDensity(createFits(records));
  await withCluster("report", flags, (cluster) => fill(density, cluster));
  const now = { wallMs: Date.now(), monotonicMs: performance.now() };
  const nodes = () => density.sites().map((site) => nodeRow(density, site, now));
  const text =
    output === "json"
      ? `${JSON.stringify({ nodes: nodes(), ...cost(density) }, undefined, 2)}\n`
      : renderReport(density, now);
  process.stdout.write(text);
}

/** A reader of the cluster may lack the right to ConfigMaps: nodes are then judged by their Node objects. */
async function listReports({ client }: Cluster): Promise<ReadonlyMap<string, ConfigMap>> {
  const options = { namespace: NAMESPACE_SYSTEM, labelSelector: LABEL_NODE_REPORT };
  const result = await client.list(CONFIG_MAPS, options);
  const items = result.ok ? result.value.items : [];
  return new Map(items.map((item) => [item.metadata.name, item]));
}

async function fill(density: Density, cluster: Cluster): Promise<void> {
  const [hosts, nodes, replicas, pods, services, models] = await Promise.all([
    listAll(cluster, HOSTS),
    listAll(cluster, NODES),
    listAll(cluster, INFERENCE_REPLICAS),
    listAll(cluster, PODS, { labelSelector: LABEL_SERVICE_UID }),
    listAll(cluster, INFERENCE_SERVICES),
    listAll(cluster, MODELS),
  ]);
  for (const host of hosts) density.setPlace("Host", host.metadata.name, placeOfHost(host));
  const reports = await listReports(cluster);
  for (const node of nodes) {
    const { name } = node.metadata;
    density.setPlace(
      "Node",
      name,
      withReport(placeOfNode(node), reportIn(reports.get(nodeReportName(name)))),
    );
  }
  for (const replica of replicas) {
    const on = { kind: "Host", name: replica.spec.template.hostName } as const;
    density.setHeld(keyOf(replica.metadata), on, heldByReplica(replica));
  }
  for (const pod of pods.filter((one) => !isOver(one))) {
    const { nodeName: name } = pod.spec;
    if (name !== undefined)
      density.setHeld(`pod ${keyOf(pod.metadata)}`, { kind: "Node", name }, heldByPod(pod));
  }
  for (const { metadata, spec } of services) density.setService(keyOf(metadata), spec.modelRef);
  for (const { metadata, spec } of models) density.setModel(keyOf(metadata), spec.source);
}
