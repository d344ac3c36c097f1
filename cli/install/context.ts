/** The installation on this machine and the ports to change it, for install, upgrade, uninstall and the service verbs. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { type Command, Option } from "commander";
import { readEnvironment } from "../../agent/config/environment.ts";
import { createDsclAccounts } from "../../launchd/account/dscl.ts";
import { createUseraddAccounts } from "../../launchd/account/useradd.ts";
import { readChoices } from "../../launchd/choices.ts";
import { createLaunchctl } from "../../launchd/launchctl/launchctl.ts";
import { stopSeconds } from "../../launchd/layout/agent-command.ts";
import { type InstallLayout, type InstallScope, layoutFor } from "../../launchd/layout/layout.ts";
import type { Choices } from "../../launchd/plan/entries.ts";
import type { InstallPorts } from "../../launchd/ports.ts";
import { createSystemctl } from "../../launchd/systemd/systemctl.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createCommand, ignoringSignals } from "../../src/util/command.ts";
import { printLine } from "../program/output.ts";
import { countEngines } from "./engine-count.ts";

export interface InstallScopeFlags {
  readonly scope?: InstallScope;
  readonly platform: "darwin" | "linux";
  readonly root: string;
}

/** Time for drained engines, TERM and KILL: the default of ExitTimeOut without the margin. */
const DRAIN_SECONDS = 30;
const LEAVE_MARGIN_MS = 10_000;

/** Options that choose the installation. The hidden options are for tests. */
export function addInstallScopeFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--scope <scope>",
        "system: start at boot, under a separate account; user: start at login, as a LaunchAgent (macOS) (default: the installed scope, else system)",
      ).choices(["system", "user"]),
    )
    .addOption(
      new Option("--platform <name>").choices(["darwin", "linux"]).default(currentPlatform()).hideHelp(),
    )
    .addOption(new Option("--root <folder>").default("").hideHelp());
}

export interface ChoiceOverrides {
  readonly user?: string | undefined;
  readonly stateDir?: string | undefined;
  readonly drainSeconds?: number | undefined;
}

/** The installed choices with the overrides of the user. A record that cannot be read is replaced. */
export async function choicesFor(
  flags: InstallScopeFlags,
  overrides: ChoiceOverrides = {},
): Promise<Choices> {
  const installed = await installedChoices(flags).catch(ignoreUnreadable);
  const layout = freshLayout(flags, {
    scope: flags.scope ?? installed?.layout.scope ?? "system",
    account: overrides.user ?? installed?.layout.account,
    stateDir: overrides.stateDir ?? installed?.layout.stateDir,
  });
  const drainSeconds = overrides.drainSeconds ?? installed?.drainSeconds ?? DRAIN_SECONDS;
  return { layout, drainSeconds };
}

/** The layout of a system agent that is not installed yet. */
export function systemLayout({
  platform,
  root,
}: Pick<InstallScopeFlags, "platform" | "root">): InstallLayout {
  return freshLayout({ platform, root }, { scope: "system" });
}

/** Throws InstallNotFound. An installation without install.json is found by its service definition. */
export async function existingChoices(flags: InstallScopeFlags): Promise<Choices> {
  const installed = await installedChoices(flags);
  if (installed !== undefined) return installed;
  const choices = await choicesFor(flags);
  if (existsSync(choices.layout.definition) || existsSync(choices.layout.prefix)) return choices;
  throw new MetalbridgeError("InstallNotFound", `there is no ${choices.layout.definition}`);
}

/** `loadedDrainSeconds` is from the definition that the service manager has loaded, which may differ from the new one. */
export function portsFor({ layout, drainSeconds }: Choices, loadedDrainSeconds = 0): InstallPorts {
  const euid = process.geteuid?.() ?? 0;
  const run = createCommand(toolPath());
  const leaveMs = stopSeconds(Math.max(drainSeconds, loadedDrainSeconds)) * 1_000 + LEAVE_MARGIN_MS;
  const isLaunchd = layout.manager === "launchd";
  return {
    clock: systemClock,
    euid,
    supervisor: isLaunchd
      ? createLaunchctl({ run: ignoringSignals(run), clock: systemClock, euid, layout, leaveMs })
      : createSystemctl(ignoringSignals(createCommand(toolPath(), leaveMs)), layout.definition),
    accounts: isLaunchd ? createDsclAccounts(run) : createUseraddAccounts(run),
    countEngines: async (stateDir) => countEngines(stateDir),
    print: printLine,
  };
}

/** PATH with the folders of system programs, which the PATH of a user may lack. */
export function toolPath(): string {
  return `${readEnvironment().toolPath}:/usr/sbin:/sbin:/usr/bin:/bin`;
}

export function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof MetalbridgeError) || error.code !== "InstallUnreadable") throw error;
}

/** Undefined when nothing is installed. Throws InstallUnreadable. */
export async function installedChoices(flags: InstallScopeFlags): Promise<Choices | undefined> {
  const scopes: readonly InstallScope[] = flags.scope === undefined ? ["system", "user"] : [flags.scope];
  for (const scope of scopes) {
    const found = await readChoices(freshLayout(flags, { scope }).prefix);
    if (found !== undefined) return found;
  }
  return undefined;
}

function freshLayout(
  { platform, root }: InstallScopeFlags,
  choices: Pick<Parameters<typeof layoutFor>[0], "scope" | "account" | "stateDir">,
): InstallLayout {
  return layoutFor({ platform, root, home: homedir(), uid: process.getuid?.() ?? 0, ...choices });
}

export function currentPlatform(): "darwin" | "linux" {
  return process.platform === "darwin" ? "darwin" : "linux";
}
