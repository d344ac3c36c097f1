/** `metalbridge host`: adds, lists and removes hosts, and marks a host as lost. */
import { type Command, Option } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { keyOf } from "../src/api/names.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findIfPresent, listAll } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  durationParser,
  type OutputFormat,
  outputFlag,
  parseDuration,
  parseHostName,
  timeoutOption,
} from "./cluster/flags.ts";
import { followDrain } from "./drain/follow.ts";
import { writeHostChange } from "./drain/patch.ts";
import { removeAccess, removeOne } from "./host/access.ts";
import { type AddFlags, type HostArgument, hostAdd } from "./host/add.ts";
import { hostAddFile } from "./host/add-many.ts";
import { hostApprove, hostReject, readPendingRequests, renderPendingRequests } from "./host/approve.ts";
import { hostLost } from "./host/lost.ts";
import { hostEntries, renderHostTable } from "./host/table.ts";
import { configureTokens } from "./host/token.ts";
import { confirm } from "./program/confirm.ts";
import { printLine, printNote, printResult } from "./program/output.ts";

/** Subcommands, options and actions of the verb. */
export function configureHost(command: Command): void {
  addClusterFlags(command.command("list"))
    .description("List the hosts: state, replicas, memory, machine")
    .addOption(outputFlag())
    .action(hostList);
  addClusterFlags(command.command("add"))
    .description("Register hosts, and print the join command for each machine")
    .argument("[host...]", "names of the Hosts, optionally with addresses: mini-1=192.168.1.21", parseHosts)
    .option("-f, --filename <file>", "YAML or JSON file with a list of hosts, or - for standard input")
    .option("--dry-run", "with -f: check the file and print the hosts that would be added, without changes")
    .option("--address <address...>", "addresses, or networks in CIDR notation, that the host may serve on")
    .option("--server <url>", "URL of the API server for the host (default: the server in the kubeconfig)")
    // The API server issues no token for less than ten minutes.
    .addOption(
      new Option("--valid-for <time>", "validity of the join token, from 10m to 24h")
        .argParser(durationParser("10m", "24h"))
        .default(parseDuration("24h"), "24h"),
    )
    .option("--yes", "skip the confirmation before the credential of a connected agent is replaced")
    .addOption(outputFlag())
    .action(addHosts);
  configureTokens(command.command("token").description("Manage the join tokens of groups"));
  addClusterFlags(command.command("approve"))
    .description("Approve machines that are waiting to join with the token of a group")
    .argument("<host...>", "names of the hosts, or the first 16 digits of their keys")
    .action(hostApprove);
  addClusterFlags(command.command("reject"))
    .description("Reject machines that are waiting to join")
    .argument("<host...>", "names of the hosts, or the first 16 digits of their keys")
    .option("--because <text>", "reason, which is shown on the machine")
    .action(hostReject);
  addClusterFlags(command.command("remove"))
    .description("Remove a host with its account and permissions, and revoke its credential")
    .argument("<host>", "name of the Host", parseHostName)
    .option("--drain", "drain the host first")
    .addOption(timeoutOption("stop waiting for the drain after this time (the host is not removed)", "10m"))
    .option("--yes", "skip the confirmation")
    .action(hostRemove);
  addClusterFlags(command.command("lost"))
    .description("Mark a host as permanently lost; its replicas are rescheduled at once")
    .argument("<host>", "name of the Host", parseHostName)
    .option(
      "--force",
      "do not wait until the Lease expires, for a host with an agent that still renews its Lease but is not trusted",
    )
    .option("--yes", "skip the confirmation")
    .action(hostLost);
}

type AddCommandFlags = AddFlags & { readonly filename?: string; readonly dryRun?: boolean };

async function addHosts(
  hosts: readonly HostArgument[] = [],
  { filename, ...flags }: AddCommandFlags,
  command: Command,
): Promise<void> {
  if (filename === undefined) {
    if (hosts.length === 0) command.error("error: name hosts, or pass a file with -f");
    if (flags.dryRun === true) command.error("error: --dry-run requires -f");
    return hostAdd(hosts, flags);
  }
  if (hosts.length > 0 || flags.address !== undefined)
    command.error("error: with -f, pass names and addresses only in the file");
  return hostAddFile({ ...flags, filename });
}

/** Called for each argument. */
function parseHosts(text: string, before: readonly HostArgument[] = []): readonly HostArgument[] {
  const [name = "", addresses] = text.split("=", 2);
  return [...before, { name: parseHostName(name), addresses: addresses?.split(",").filter(Boolean) }];
}

async function hostList(flags: ClusterFlags & { readonly output: OutputFormat }): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const [hosts, replicas, waiting] = await Promise.all([
      listAll(cluster, HOSTS),
      listAll(cluster, INFERENCE_REPLICAS),
      readPendingRequests(cluster),
    ]);
    const entries = hostEntries(hosts, replicas);
    printResult(flags.output, entries, () => renderHostTable(entries, Date.now()));
    if (waiting.length > 0 && flags.output !== "json")
      printLine(`\n${renderPendingRequests(waiting, Date.now())}`);
  });
}

interface RemoveFlags extends ClusterFlags {
  readonly drain?: boolean;
  readonly timeout: number;
  readonly yes?: boolean;
}

/** Can be repeated: objects that no longer exist are skipped. Throws HostNotFound if the host had no objects. */
async function hostRemove(name: string, flags: RemoveFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const host = await findIfPresent(cluster, HOSTS, name);
    if (host !== undefined && flags.drain === true) {
      const drained = await writeHostChange(cluster, host, { drain: true });
      if (!(await followDrain(cluster, drained.host, flags.timeout))) return;
    }
    const replicas = await replicasOn(cluster, name);
    if (replicas.length > 0) {
      printNote(`on host ${name}: ${replicas.join(", ")}; they leave their Services at once`);
      printNote(`to move them first: metalbridge host remove ${name} --drain`);
      if (flags.yes !== true) await confirm(`remove host ${name} with its replicas?`);
    }
    const removed = [...(await removeAccess(cluster, name))];
    if (await removeOne(cluster, HOSTS, { name })) removed.push(`Host ${name}`);
    if (removed.length === 0)
      throw new MetalbridgeError("HostNotFound", `host ${name} has no objects in the cluster`);
    printLine(`host ${name} is removed; deleted: ${removed.join(", ")}`);
    printNote(
      "an agent that still runs on the machine keeps its engines, but no Service sends requests to them",
    );
  });
}

async function replicasOn(cluster: Cluster, name: string): Promise<readonly string[]> {
  const found = await listAll(cluster, INFERENCE_REPLICAS, {
    fieldSelector: `spec.template.hostName=${name}`,
  });
  return found.map(({ metadata }) => keyOf(metadata)).sort();
}
