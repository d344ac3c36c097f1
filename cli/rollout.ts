/** `metalbridge rollout`: how a change of a service goes, what went before, going back to it, and new pods without a change. */
import type { Command } from "commander";
import {
  addNamespacedFlags,
  booleanOption,
  countParser,
  outputFlag,
  parseDuration,
  parseServiceName,
} from "./cluster/flags.ts";
import { rolloutHistory } from "./rollout/run-history.ts";
import { rolloutRestart } from "./rollout/run-restart.ts";
import { rolloutStatus } from "./rollout/run-status.ts";
import { rolloutUndo } from "./rollout/run-undo.ts";

const SERVICE = ["<service>", "name of the InferenceService"] as const;

/** Subcommands, options and actions of the verb. */
export function configureRollout(command: Command): void {
  addNamespacedFlags(command.command("status"))
    .description("follow the rollout of a service until it is done")
    .argument(...SERVICE, parseServiceName)
    .addOption(booleanOption("--watch", "follow until it is done, or stopped"))
    .option(
      "--timeout <time>",
      "stop following after this time, such as 90s or 10m; 0: never",
      parseDuration,
      0,
    )
    .addOption(outputFlag())
    .action(rolloutStatus);
  addNamespacedFlags(command.command("history"))
    .description("list the revisions of a service")
    .argument(...SERVICE, parseServiceName)
    .option("--revision <number>", "everything of one revision", countParser(1))
    .addOption(outputFlag())
    .action(rolloutHistory);
  addNamespacedFlags(command.command("restart"))
    .description("replace the pods of a service, with the controller's present images and defaults")
    .argument(...SERVICE, parseServiceName)
    .action(rolloutRestart);
  addNamespacedFlags(command.command("undo"))
    .description("go back to an earlier revision of a service")
    .argument(...SERVICE, parseServiceName)
    .option(
      "--to-revision <number>",
      "revision to go back to; 0: the one that serves while another is brought in, else the one before the newest",
      countParser(0),
      0,
    )
    .option("--dry-run", "say what would change, and change nothing")
    .addOption(outputFlag())
    .action(rolloutUndo);
}
