/** `metalbridge install`, and the upgrade of this machine: the agent as a service of launchd or systemd. */
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { resolve } from "node:path";
import type { Command } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import { explainDiskFull, install as installService } from "../launchd/install.ts";
import { placesBelow } from "../launchd/layout/layout.ts";
import type { Choices } from "../launchd/plan/entries.ts";
import { type ReleaseSource, sourceFromArchive, sourceFromFolder } from "../launchd/release/stage.ts";
import { packageRoot } from "../local/package-root.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { createCommand } from "../src/util/command.ts";
import {
  addInstallScopeFlags,
  type ChoiceOverrides,
  choicesFor,
  existingChoices,
  type InstallScopeFlags,
  ignoreUnreadable,
  installedChoices,
  parseSeconds,
  portsFor,
  toolPath,
} from "./install/context.ts";
import { withInstallLock } from "./install/install-lock.ts";

export interface UpgradeFlags extends InstallScopeFlags {
  readonly archive?: string | undefined;
  readonly sha256?: string;
  readonly allowDowngrade?: boolean;
  readonly dryRun?: boolean;
  readonly timeoutSeconds: number;
}

interface InstallFlags extends UpgradeFlags, ChoiceOverrides {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly takeOver?: boolean;
}

/** Options and action of the verb. */
export function configureInstall(command: Command): void {
  command.option("--archive <file>", "release archive (default: the release that this program belongs to)");
  addReleaseFlags(command)
    .option("--timeout-seconds <n>", "how long the agent may take until it serves", parseSeconds, 20)
    .option(
      "--config <file>",
      "the agent's configuration; copied (default: what is installed, else an empty one)",
    )
    .option("--kubeconfig <file>", "the host's credential; copied, readable by the agent only")
    .option(
      "--user <name>",
      "account of agent and engines; created if missing (default: _metalbridge, on Linux metalbridge)",
    )
    .option("--state-dir <folder>", "folder for models, engines and desired state")
    .option(
      "--drain-seconds <n>",
      "with stopEngines in the configuration: the largest drainSeconds of your services (default: 30)",
      parseSeconds,
    )
    .option("--take-over", "replace a service of this name that was not installed by this command")
    .action(async (flags: InstallFlags) => {
      const choices = await choicesFor(flags, wishedOf(flags));
      requireValid(flags, choices);
      await bring(flags, choices);
    });
}

/** Upgrades the installation of this machine. */
export async function upgradeLocal(flags: UpgradeFlags): Promise<void> {
  await bring(flags, await existingChoices(flags));
}

/** Flags that install and upgrade share. */
export function addReleaseFlags(command: Command): Command {
  return addInstallScopeFlags(command)
    .option("--sha256 <sum>", "its checksum (default: the file of that name with .sha256)")
    .option("--allow-downgrade", "install a version older than the current one")
    .option("--dry-run", "say what would change, and change nothing");
}

async function bring(flags: InstallFlags, choices: Choices): Promise<void> {
  const installed = await installedChoices(flags).catch(ignoreUnreadable);
  const ports = portsFor(choices, installed?.drainSeconds);
  const { allowDowngrade = false, takeOver = false, dryRun = false } = flags;
  // The agent's account reads what is made below, whatever the shell of root hides from others.
  process.umask(0o022);
  await withInstallLock(choices, ports, async () => {
    const source = await sourceOf(flags, choices);
    try {
      await installService(ports, {
        choices,
        source,
        allowDowngrade,
        takeOver,
        dryRun,
        given: { config: textOf(flags.config), kubeconfig: textOf(flags.kubeconfig) },
        healthyWithinMs: flags.timeoutSeconds * 1_000,
      });
    } finally {
      await source.discard();
    }
  });
}

/** Before anything is changed: an agent that runs would not survive a configuration that this version refuses. */
function requireValid({ config, platform }: InstallFlags, { layout }: Choices): void {
  if (config === undefined) return;
  const { stateDir } = layout;
  loadAgentConfig({ file: config, flags: { platform, stateDir }, env: { PATH: toolPath() } });
}

function wishedOf({ user, stateDir, drainSeconds }: InstallFlags): ChoiceOverrides {
  return { user, drainSeconds, stateDir: stateDir === undefined ? undefined : resolve(homedir(), stateDir) };
}

async function sourceOf(
  { archive, sha256, platform }: InstallFlags,
  { layout }: Choices,
): Promise<ReleaseSource> {
  const machine = `${platform}-${process.arch}`;
  if (archive === undefined) return sourceFromFolder(packageRoot(), machine);
  const { versions } = placesBelow(layout.prefix);
  const run = createCommand(toolPath());
  try {
    return await sourceFromArchive({ archive, sha256, platform: machine, versions, run });
  } catch (error) {
    throw explainDiskFull(error, `unpack ${archive}`);
  }
}

function textOf(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new MetalbridgeError("AgentConfigUnreadable", `${path} cannot be read`, undefined, { cause });
  }
}
