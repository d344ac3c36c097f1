/** `metalbridge get`: lists objects in the columns of `kubectl get`, once or as they change. */

import { Argument, type Command, InvalidArgumentError } from "commander";
import { type PrintedTable, printTable } from "../src/kube/client/table.ts";
import type { Kind, KubeObject, ListOptions } from "../src/kube/types.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { unwrapResult } from "./cluster/failure.ts";
import { findObject, listAll } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, formatOption, parseName } from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { kindOfWord, kindWords } from "./cluster/kinds.ts";
import { printJson, printLine, printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { alignColumns, type Row } from "./program/table.ts";

interface Flags extends ClusterFlags {
  readonly allNamespaces?: boolean;
  readonly selector?: string;
  readonly watch?: boolean;
  readonly output?: "wide" | "json" | "name";
}

/** Options and action of the verb. */
export function configureGet(command: Command): void {
  addNamespacedFlags(command)
    .addArgument(
      // The words are offered and suggested.
      new Argument("<kind>", "services, models, replicas or hosts").choices(kindWords).argParser(parseKind),
    )
    .argument("[name]", "name of one object", parseName)
    .option("-A, --all-namespaces", "list the objects of all namespaces")
    .option("-l, --selector <labels>", "only objects with these labels, such as a=b,c!=d")
    .option("-w, --watch", "after the list, print each change until Ctrl-C")
    .addOption(formatOption("wide", "json", "name"))
    .action(get);
}

function parseKind(word: string): Kind<KubeObject> {
  const kind = kindOfWord(word);
  if (kind !== undefined) return kind;
  throw new InvalidArgumentError("It must be services, models, replicas or hosts.");
}

async function get(kind: Kind<KubeObject>, name: string | undefined, flags: Flags): Promise<void> {
  await withCluster("get", flags, async (cluster) => {
    const isEverywhere = !kind.namespaced || flags.allNamespaces === true;
    const options: ListOptions = {
      namespace: isEverywhere ? undefined : cluster.namespace,
      labelSelector: flags.selector,
      fieldSelector: name === undefined ? undefined : `metadata.name=${name}`,
    };
    if (name !== undefined && !isEverywhere) await findObject(cluster, kind, name);
    if (flags.output === "json") return printAsJson(await listAll(cluster, kind, options), name);
    const print = createPrinter(kind, flags);
    print(await read(cluster, kind, options));
    if (flags.watch === true) await printChanges(cluster, kind, options, print);
  });
}

/** One object if a name was given, else a List. */
function printAsJson(items: readonly KubeObject[], name: string | undefined): void {
  const isOne = name !== undefined && items.length === 1;
  printJson(isOne ? items[0] : { apiVersion: "v1", kind: "List", items });
}

async function read(cluster: Cluster, kind: Kind<KubeObject>, options: ListOptions): Promise<PrintedTable> {
  const answer = await printTable(cluster.connection, kind, options);
  return unwrapResult({ verb: "list", kind, namespace: options.namespace }, answer);
}

/** Prints the header with the first rows. Later rows use the same column widths. */
function createPrinter(kind: Kind<KubeObject>, { output, allNamespaces = false }: Flags) {
  let header: Row | undefined;
  return ({ columns, rows }: PrintedTable): void => {
    if (output === "name") {
      for (const { metadata } of rows) printLine(`${kind.plural}.${kind.group}/${metadata.name}`);
      return;
    }
    if (rows.length === 0) {
      if (header === undefined) printNote(`no ${kind.plural} found`);
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
      printLine(
        alignColumns([header, ...lines], "   ")
          .slice(1)
          .join("\n"),
      );
      return;
    }
    const titles = row(
      columns.map(({ name }) => name.toUpperCase()),
      "NAMESPACE",
    );
    header = titles.map((title, column) =>
      title.padEnd(Math.max(...lines.map((line) => line[column]?.length ?? 0))),
    );
    printLine(alignColumns([titles, ...lines], "   ").join("\n"));
  };
}

/** Prints a row for each object that changes after the first list. A deleted object prints nothing. */
async function printChanges(
  cluster: Cluster,
  kind: Kind<KubeObject>,
  options: ListOptions,
  print: (table: PrintedTable) => void,
): Promise<void> {
  const stop = listenForStop();
  const versions = new Map<string, string | undefined>();
  let isFirst = true;
  let printed = Promise.resolve();
  const printOne = async ({ name, namespace }: KubeObject["metadata"]) =>
    print(await read(cluster, kind, { namespace, fieldSelector: `metadata.name=${name}` }));
  await follow<never>(cluster, { signal: stop.signal }, ({ watch, fail }) => {
    const reflector = watch(kind, options, () => {
      const changed = reflector
        .list()
        .filter(({ metadata }) => versions.get(metadata.uid ?? "") !== metadata.resourceVersion);
      for (const { metadata } of changed) versions.set(metadata.uid ?? "", metadata.resourceVersion);
      if (!isFirst)
        for (const { metadata } of changed) printed = printed.then(() => printOne(metadata)).catch(fail);
      isFirst = false;
    });
  });
  await printed;
  process.exitCode = stop.exitCode();
}
