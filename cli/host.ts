/** `metalbridge host`: the machines of a farm: adding, removing, marking one as lost. */

import { type Command, InvalidArgumentError } from "commander";
import { JOIN_TOKEN_SECONDS } from "../src/api/access/account.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type Output,
  outputFlag,
  parseDuration,
  parseHostName,
} from "./cluster/flags.ts";
import { type AddFlags, type HostArgument, hostAdd } from "./host/add.ts";
import { hostLost } from "./host/lost.ts";
import { hostRemove, type RemoveFlags } from "./host/remove.ts";
import { hostEntries, renderHosts } from "./host/table.ts";
import { writeOut } from "./program/output.ts";

const LONGEST_VALIDITY_MS = JOIN_TOKEN_SECONDS * 1_000;
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
      "<host...>",
      "names of the Hosts, each also with its own addresses: mini-1=192.168.1.21",
      parseHosts,
    )
    .option("--address <address...>", "addresses, or networks as CIDRs, that the host may serve on")
    .option("--server <url>", "the API server as the host reaches it (default: that of the kubeconfig)")
    .option(
      "--valid-for <time>",
      "how long the join token is valid, from 10m to 24h (default: 24h)",
      parseValidity,
    )
    .option("--yes", "do not ask before the credential of a connected agent is replaced")
    .addOption(outputFlag())
    .action((hosts: readonly HostArgument[], flags: Partial<AddFlags>) =>
      hostAdd(hosts, { ...flags, validFor: flags.validFor ?? LONGEST_VALIDITY_MS }),
    );
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

/** Called for each argument. */
function parseHosts(text: string, before: readonly HostArgument[] = []): readonly HostArgument[] {
  const [name = "", addresses] = text.split("=", 2);
  return [...before, { name: parseHostName(name), addresses: addresses?.split(",").filter(Boolean) }];
}

/** The API server issues no token for less than ten minutes. */
function parseValidity(text: string): number {
  const ms = parseDuration(text);
  if (ms >= 600_000 && ms <= LONGEST_VALIDITY_MS) return ms;
  throw new InvalidArgumentError("It has to be a time from 10m to 24h.");
}

async function hostList(flags: ClusterFlags & { readonly output: Output }): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const [hosts, replicas] = await Promise.all([
      listAll(cluster, HOSTS),
      listAll(cluster, INFERENCE_REPLICAS),
    ]);
    const entries = hostEntries(hosts, replicas);
    const text =
      flags.output === "json" ? JSON.stringify(entries, undefined, 2) : renderHosts(entries, Date.now());
    writeOut(`${text}\n`);
  });
}
