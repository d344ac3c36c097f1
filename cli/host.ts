/** `metalbridge host`: the machines of a farm, and giving one up. */
import type { Command } from "commander";
import { addClusterFlags, outputFlag, parseHostName } from "./cluster/flags.ts";
import { hostList } from "./host/list.ts";
import { hostLost } from "./host/lost.ts";

/** Subcommands, options and actions of the verb. */
export function configureHost(command: Command): void {
  addClusterFlags(command.command("list"))
    .description("list the hosts: state, replicas, memory, machine")
    .addOption(outputFlag())
    .action(hostList);
  addClusterFlags(command.command("lost"))
    .description("say that a host is gone for good: its replicas are placed elsewhere at once")
    .argument("<host>", "name of the Host", parseHostName)
    .option("--yes", "do not ask")
    .action(hostLost);
}
