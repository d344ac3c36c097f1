/** `metalbridge uninstall`: everything that install made, except the models. */
import type { Command } from "commander";
import { uninstall } from "../launchd/service.ts";
import {
  addInstallScopeFlags,
  existingChoices,
  type InstallScopeFlags,
  portsFor,
} from "./install/context.ts";
import { withInstallLock } from "./install/install-lock.ts";

interface UninstallFlags extends InstallScopeFlags {
  readonly purge?: boolean;
  readonly stopEngines?: boolean;
  readonly dryRun?: boolean;
}

/** Options and action of the verb. */
export function configureUninstall(command: Command): void {
  addInstallScopeFlags(command)
    .option("--purge", "remove the downloaded models too")
    .option("--stop-engines", "drain and stop engines that still run, instead of refusing")
    .option("--dry-run", "say what would be removed, and remove nothing")
    .action(async (flags: UninstallFlags) => {
      const { purge = false, stopEngines = false, dryRun = false } = flags;
      const choices = await existingChoices(flags);
      const ports = portsFor(choices);
      await withInstallLock(choices, ports, () => uninstall(ports, choices, { purge, stopEngines, dryRun }));
    });
}
