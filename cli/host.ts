/** `metalbridge host`: the machines of a farm: adding, removing, marking one as lost. */

import { type Command, InvalidArgumentError } from "commander";
import { JOIN_TOKEN_SECONDS } from "../src/api/access/account.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseDuration,
  parseHostName,
} from "./cluster/flags.ts";
import { type AddFlags, type HostArgument, hostAdd } from "./host/add.ts";
import { hostAddFile } from "./host/add-many.ts";
import { hostApprove, hostReject, readPendingRequests, renderPendingRequests } from "./host/approve.ts";
import { hostLost } from "./host/lost.ts";
import { hostRemove, type RemoveFlags } from "./host/remove.ts";
import { hostEntries, renderHostTable } from "./host/table.ts";
import { configureTokens } from "./host/token.ts";
import { writeOut } from "./program/output.ts";

const MAX_VALIDITY_MS = JOIN_TOKEN_SECONDS * 1_000;
const DRAIN_TIMEOUT_MS = 600_000;

/** Subcommands, options and actions of the verb. */
export function configureHost(command: Command): void {
  addClusterFlags(command.command("list"))
    .description("list the hosts: state, replicas, memory, machine")
    .addOption(outputFlag())
    .action(hostList);
  addClusterFlags(command.command("add"))
    .description("register hosts, and print the command by which each machine joins")
    .argument(
      "[host...]",
      "names of the Hosts, each also with its own addresses: mini-1=192.168.1.21",
      parseHosts,
    )
    .option("-f, --filename <file>", "YAML or JSON file with a list of hosts; - reads standard input")
    .option("--dry-run", "with -f: check everything, print what would be added, and change nothing")
    .option("--address <address...>", "addresses, or networks as CIDRs, that the host may serve on")
    .option("--server <url>", "the API server as the host reaches it (default: that of the kubeconfig)")
    .option(
      "--valid-for <time>",
      "how long the join token is valid, from 10m to 24h (default: 24h)",
      parseValidity,
    )
    .option("--yes", "do not ask before the credential of a connected agent is replaced")
    .addOption(outputFlag())
    .action(addHosts);
  configureTokens(command.command("token").description("join tokens that many machines use"));
  addClusterFlags(command.command("approve"))
    .description("let machines join that wait with the token of a group")
    .argument("<host...>", "names of the hosts, or the first 16 digits of their keys")
    .action(hostApprove);
  addClusterFlags(command.command("reject"))
    .description("reject machines that wait to join")
    .argument("<host...>", "names of the hosts, or the first 16 digits of their keys")
    .option("--because <text>", "the reason, which the machine reports")
    .action(hostReject);
  addClusterFlags(command.command("remove"))
    .description("remove a host with its account and rights: its credential ends at once")
    .argument("<host>", "name of the Host", parseHostName)
    .option("--drain", "drain the host first")
    .option(
      "--timeout <time>",
      "stop waiting for the drain after this time, such as 90s or 10m (default: 10m); 0: never. Nothing is removed then",
      parseDuration,
    )
    .option("--yes", "do not ask")
    .action((name: string, flags: Partial<RemoveFlags>) =>
      hostRemove(name, { ...flags, timeout: flags.timeout ?? DRAIN_TIMEOUT_MS }),
    );
  addClusterFlags(command.command("lost"))
    .description("mark a host as lost for good: its replicas are rescheduled at once")
    .argument("<host>", "name of the Host", parseHostName)
    .option(
      "--force",
      "do not wait until its Lease expires: for a host whose agent still renews it and is not to be trusted",
    )
    .option("--yes", "do not ask")
    .action(hostLost);
}

type AddCommandFlags = Partial<AddFlags> & { readonly filename?: string; readonly dryRun?: boolean };

async function addHosts(
  hosts: readonly HostArgument[] = [],
  { filename, ...given }: AddCommandFlags,
  command: Command,
): Promise<void> {
  const flags = { ...given, validFor: given.validFor ?? MAX_VALIDITY_MS };
  if (filename === undefined) {
    if (hosts.length === 0) command.error("error: name hosts, or pass a file with -f");
    if (given.dryRun === true) command.error("error: --dry-run needs -f");
    return hostAdd(hosts, flags);
  }
  if (hosts.length > 0 || given.address !== undefined)
    command.error("error: with -f, names and addresses are in the file only");
  return hostAddFile({ ...flags, filename });
}

/** Called for each argument. */
function parseHosts(text: string, before: readonly HostArgument[] = []): readonly HostArgument[] {
  const [name = "", addresses] = text.split("=", 2);
  return [...before, { name: parseHostName(name), addresses: addresses?.split(",").filter(Boolean) }];
}

/** The API server issues no token for less than ten minutes. */
function parseValidity(text: string): number {
  const ms = parseDuration(text);
  if (ms >= 600_000 && ms <= MAX_VALIDITY_MS) return ms;
  throw new InvalidArgumentError("It has to be a time from 10m to 24h.");
}

async function hostList(flags: ClusterFlags & { readonly output: OutputFormat }): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const [hosts, replicas, waiting] = await Promise.all([
      listAll(cluster, HOSTS),
      listAll(cluster, INFERENCE_REPLICAS),
      readPendingRequests(cluster),
    ]);
    const entries = hostEntries(hosts, replicas);
    const text =
      flags.output === "json" ? JSON.stringify(entries, undefined, 2) : renderHostTable(entries, Date.now());
    writeOut(`${text}\n`);
    if (waiting.length > 0 && flags.output !== "json")
      writeOut(`\n${renderPendingRequests(waiting, Date.now())}\n`);
  });
}
