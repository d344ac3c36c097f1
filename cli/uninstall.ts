/** `metalbridge uninstall`: removes everything that install created, except the models. */
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
    .option("--purge", "also remove the downloaded models")
    .option("--stop-engines", "drain and stop running engines, instead of refusing")
    .option("--dry-run", "print what would be removed, without removing it")
    .action(async (flags: UninstallFlags) => {
      const { purge = false, stopEngines = false, dryRun = false } = flags;
      const choices = await existingChoices(flags);
      const ports = portsFor(choices);
      await withInstallLock(choices, ports, () => uninstall(ports, choices, { purge, stopEngines, dryRun }));
    });
}
