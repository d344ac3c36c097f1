/** `metalbridge install`, and the upgrade of this machine: installs the agent as a launchd or systemd service. */
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
import { parseSeconds } from "./cluster/flags.ts";
import {
  addInstallScopeFlags,
  type ChoiceOverrides,
  choicesFor,
  existingChoices,
  type InstallScopeFlags,
  ignoreUnreadable,
  installedChoices,
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
  command.option("--archive <file>", "release archive (default: the release of this program)");
  addReleaseFlags(command)
    .option("--timeout-seconds <n>", "time limit in seconds for the start of the agent", parseSeconds, 20)
    .option(
      "--config <file>",
      "configuration file of the agent, which is copied (default: the installed file, else an empty one)",
    )
    .option("--kubeconfig <file>", "credential of the host, which is copied and readable only by the agent")
    .option(
      "--user <name>",
      "account of the agent and the engines, which is created if missing (default: _metalbridge, on Linux metalbridge)",
    )
    .option("--state-dir <folder>", "folder for models, engines and desired state")
    .option(
      "--drain-seconds <n>",
      "with stopEngines in the configuration: maximum drainSeconds of your services (default: 30)",
      parseSeconds,
    )
    .option("--take-over", "replace a service of this name that another program has installed")
    .action(async (flags: InstallFlags) => {
      const choices = await choicesFor(flags, overridesOf(flags));
      requireValid(flags, choices);
      await installRelease(flags, choices);
    });
}

/** Upgrades the installation of this machine. */
export async function upgradeLocal(flags: UpgradeFlags): Promise<void> {
  await installRelease(flags, await existingChoices(flags));
}

/** Flags that install and upgrade share. */
export function addReleaseFlags(command: Command): Command {
  return addInstallScopeFlags(command)
    .option("--sha256 <sum>", "SHA-256 of the archive (default: from the file with the suffix .sha256)")
    .option("--allow-downgrade", "allow a version older than the current one")
    .option("--dry-run", "print the changes without applying them");
}

async function installRelease(flags: InstallFlags, choices: Choices): Promise<void> {
  const installed = await installedChoices(flags).catch(ignoreUnreadable);
  const ports = portsFor(choices, installed?.drainSeconds);
  const { allowDowngrade = false, takeOver = false, dryRun = false } = flags;
  // The account of the agent must be able to read the files, whatever the umask of root.
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

/** Fails before anything is changed: a running agent would not survive a configuration that this version refuses. */
function requireValid({ config, platform }: InstallFlags, { layout }: Choices): void {
  if (config === undefined) return;
  const { stateDir } = layout;
  loadAgentConfig({ file: config, flags: { platform, stateDir }, env: { PATH: toolPath() } });
}

function overridesOf({ user, stateDir, drainSeconds }: InstallFlags): ChoiceOverrides {
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
