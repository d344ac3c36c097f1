/** `metalbridge get`: objects in the columns of `kubectl get`, once or as they change. */

import { Argument, type Command, Option } from "commander";
import type { ErrorCode } from "../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { type PrintedTable, printTable } from "../src/kube/client/table.ts";
import type { Kind, KubeObject, ListOptions } from "../src/kube/types.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { explainAttempt } from "./cluster/failure.ts";
import { findIfPresent, listAll, notFound } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, parseName } from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { writeErr, writeOut } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { alignColumns, type Row } from "./program/table.ts";

interface Flags extends ClusterFlags {
  readonly allNamespaces?: boolean;
  readonly selector?: string;
  readonly watch?: boolean;
  readonly output?: "wide" | "json" | "name";
}

interface Listing {
  readonly kind: Kind<KubeObject>;
  readonly missing: ErrorCode;
  readonly names: readonly string[];
}

const SERVICES: Listing = {
  kind: INFERENCE_SERVICES,
  missing: "ServiceNotFound",
  names: ["services", "service", "isvc"],
};
const LISTINGS: readonly Listing[] = [
  SERVICES,
  { kind: MODELS, missing: "ModelNotFound", names: ["models", "model", "mdl"] },
  { kind: INFERENCE_REPLICAS, missing: "ReplicaNotFound", names: ["replicas", "replica", "irep"] },
  { kind: HOSTS, missing: "HostNotFound", names: ["hosts", "host", "mbhost"] },
];

/** Options and action of the verb. */
export function configureGet(command: Command): void {
  addNamespacedFlags(command)
    .addArgument(
      new Argument("<kind>", "services, models, replicas or hosts").choices(
        LISTINGS.flatMap(({ names }) => names),
      ),
    )
    .argument("[name]", "only this one", parseName)
    .option("-A, --all-namespaces", "objects of every namespace")
    .option("-l, --selector <labels>", "only objects with these labels: a=b,c!=d")
    .option("-w, --watch", "then print each change, until Ctrl-C")
    .addOption(new Option("-o, --output <format>", "how to print it").choices(["wide", "json", "name"]))
    .action(get);
}

async function get(word: string, name: string | undefined, flags: Flags): Promise<void> {
  const listing = LISTINGS.find(({ names }) => names.includes(word)) ?? SERVICES;
  await withCluster("get", flags, async (cluster) => {
    const isEverywhere = !listing.kind.namespaced || flags.allNamespaces === true;
    const options: ListOptions = {
      namespace: isEverywhere ? undefined : cluster.namespace,
      labelSelector: flags.selector,
      fieldSelector: name === undefined ? undefined : `metadata.name=${name}`,
    };
    if (
      name !== undefined &&
      (await findIfPresent(cluster, listing.kind, name)) === undefined &&
      !isEverywhere
    )
      await notFound(cluster, listing.kind, listing.missing, name);
    if (flags.output === "json") return printJson(cluster, listing, options, name);
    const print = createPrinter(listing, flags);
    print(await read(cluster, listing, options));
    if (flags.watch === true) await printChanges(cluster, listing, options, print);
  });
}

async function printJson(
  cluster: Cluster,
  { kind }: Listing,
  options: ListOptions,
  name: string | undefined,
): Promise<void> {
  const items = await listAll(cluster, kind, options);
  const shown =
    name !== undefined && items.length === 1 ? items[0] : { apiVersion: "v1", kind: "List", items };
  writeOut(`${JSON.stringify(shown, undefined, 2)}\n`);
}

async function read(cluster: Cluster, { kind }: Listing, options: ListOptions): Promise<PrintedTable> {
  const answer = await printTable(cluster.connection, kind, options);
  if (answer.ok) return answer.value;
  throw explainAttempt({ verb: "list", kind, namespace: options.namespace }, answer.error);
}

/** Prints the header with the first rows; later ones keep the widths of the first. */
function createPrinter({ kind }: Listing, { output, allNamespaces = false }: Flags) {
  let header: Row | undefined;
  return ({ columns, rows }: PrintedTable): void => {
    if (output === "name") {
      write(rows.map(({ metadata }) => `${kind.plural}.${kind.group}/${metadata.name}`));
      return;
    }
    if (rows.length === 0) {
      if (header === undefined) writeErr(`there are no ${kind.plural} here\n`);
      return;
    }
    const withNamespace = allNamespaces && kind.namespaced;
    const isShown = columns.map(({ isWide }) => !isWide || output === "wide");
    const row = (cells: readonly string[], namespace: string): Row => [
      ...(withNamespace ? [namespace] : []),
      ...cells.filter((_, column) => isShown[column]),
    ];
    const lines = rows.map(({ cells, metadata }) => row(cells, metadata.namespace ?? ""));
    if (header !== undefined) {
      write(alignColumns([header, ...lines], "   ").slice(1));
      return;
    }
    const titles = row(
      columns.map(({ name }) => name.toUpperCase()),
      "NAMESPACE",
    );
    header = titles.map((title, column) =>
      title.padEnd(Math.max(...lines.map((line) => line[column]?.length ?? 0))),
    );
    write(alignColumns([titles, ...lines], "   "));
  };
}

function write(lines: readonly string[]): void {
  for (const line of lines) writeOut(`${line}\n`);
}

/** A row for each object that changes after the first list; one that is deleted prints nothing. */
async function printChanges(
  cluster: Cluster,
  listing: Listing,
  options: ListOptions,
  print: (table: PrintedTable) => void,
): Promise<void> {
  const stop = listenForStop();
  const versions = new Map<string, string | undefined>();
  let isFirst = true;
  let printed = Promise.resolve();
  const tellTrouble = (message: string) => writeErr(`${message}\n`);
  await follow<never>(cluster, { signal: stop.signal, timeoutMs: 0, tellTrouble }, ({ watch, fail }) => {
    const reflector = watch(listing.kind, options, () => {
      const changed = reflector
        .list()
        .filter(({ metadata }) => versions.get(metadata.uid ?? "") !== metadata.resourceVersion);
      for (const { metadata } of changed) versions.set(metadata.uid ?? "", metadata.resourceVersion);
      if (!isFirst)
        for (const { metadata } of changed)
          printed = printed.then(() => printOne(cluster, listing, metadata, print)).catch(fail);
      isFirst = false;
    });
  });
  await printed;
  process.exitCode = stop.exitCode();
}

async function printOne(
  cluster: Cluster,
  listing: Listing,
  { name, namespace }: KubeObject["metadata"],
  print: (table: PrintedTable) => void,
): Promise<void> {
  const place = namespace === undefined ? {} : { namespace };
  print(await read(cluster, listing, { ...place, fieldSelector: `metadata.name=${name}` }));
}
