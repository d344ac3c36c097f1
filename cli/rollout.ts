/** `metalbridge rollout`: status, history, undo and restart of the rollout of a service. */
import type { Command } from "commander";
import {
  addNamespacedFlags,
  booleanOption,
  countParser,
  outputFlag,
  parseServiceName,
  timeoutOption,
} from "./cluster/flags.ts";
import { rolloutHistory } from "./rollout/run-history.ts";
import { rolloutRestart } from "./rollout/run-restart.ts";
import { rolloutStatus } from "./rollout/run-status.ts";
import { rolloutUndo } from "./rollout/run-undo.ts";

const SERVICE = ["<service>", "name of the InferenceService"] as const;

/** Subcommands, options and actions of the verb. */
export function configureRollout(command: Command): void {
  addNamespacedFlags(command.command("status"))
    .description("Follow the rollout of a service until it is done")
    .argument(...SERVICE, parseServiceName)
    .addOption(booleanOption("--watch", "wait until the rollout is done or stopped"))
    .addOption(timeoutOption("stop waiting after this time", "0"))
    .addOption(outputFlag())
    .action(rolloutStatus);
  addNamespacedFlags(command.command("history"))
    .description("List the revisions of a service")
    .argument(...SERVICE, parseServiceName)
    .option("--revision <number>", "show the details of one revision", countParser(1))
    .addOption(outputFlag())
    .action(rolloutHistory);
  addNamespacedFlags(command.command("restart"))
    .description("Replace the pods of a service, with the current images and defaults of the controller")
    .argument(...SERVICE, parseServiceName)
    .action(rolloutRestart);
  addNamespacedFlags(command.command("undo"))
    .description("Roll back to an earlier revision of a service")
    .argument(...SERVICE, parseServiceName)
    .option(
      "--to-revision <number>",
      "revision to roll back to; 0 means the serving revision during a rollout, else the previous revision",
      countParser(0),
      0,
    )
    .option("--dry-run", "print the changes without applying them")
    .addOption(outputFlag())
    .action(rolloutUndo);
}
