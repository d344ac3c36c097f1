/** `metalbridge uninstall`: everything that install made, except the models. */
import type { Command } from "commander";
import { uninstall } from "../launchd/service.ts";
import { alone } from "./install/alone.ts";
import { addPlaceFlags, existingChoices, type PlaceFlags, portsFor } from "./install/context.ts";

interface UninstallFlags extends PlaceFlags {
  readonly purge?: boolean;
  readonly stopEngines?: boolean;
  readonly dryRun?: boolean;
}

/** Options and action of the verb. */
export function configureUninstall(command: Command): void {
  addPlaceFlags(command)
    .option("--purge", "remove the downloaded models too")
    .option("--stop-engines", "drain and stop engines that still run, instead of refusing")
    .option("--dry-run", "say what would be removed, and remove nothing")
    .action(async (flags: UninstallFlags) => {
      const { purge = false, stopEngines = false, dryRun = false } = flags;
      const choices = await existingChoices(flags);
      const ports = portsFor(choices);
      await alone(choices, ports, () => uninstall(ports, choices, { purge, stopEngines, dryRun }));
    });
}
