/** What install, upgrade, uninstall and the service verbs share: this machine's ports, and what is installed on it. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { type Command, InvalidArgumentError, Option } from "commander";
import { readEnvironment } from "../../agent/config/environment.ts";
import { createDsclAccounts } from "../../launchd/account/dscl.ts";
import { createUseraddAccounts } from "../../launchd/account/useradd.ts";
import { readChoices } from "../../launchd/choices.ts";
import { createLaunchctl } from "../../launchd/launchctl/launchctl.ts";
import { stopSeconds } from "../../launchd/layout/agent-command.ts";
import { type InstallLayout, layoutFor, type Scope } from "../../launchd/layout/layout.ts";
import type { Choices } from "../../launchd/plan/entries.ts";
import type { InstallPorts } from "../../launchd/ports.ts";
import { createSystemctl } from "../../launchd/systemd/systemctl.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createCommand, ignoringSignals } from "../../src/util/command.ts";
import { printLine } from "../program/output.ts";
import { countEngines } from "./engine-count.ts";

export interface InstallScopeFlags {
  readonly scope?: Scope;
  readonly platform: "darwin" | "linux";
  readonly root: string;
}

/** Drained engines, then TERM and KILL: the default of ExitTimeOut without the margin. */
const DRAIN_SECONDS = 30;
const LEAVE_MARGIN_MS = 10_000;

/** Which installation is meant. The hidden ones move everything below a folder, and choose launchd, for tests. */
export function addInstallScopeFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--scope <scope>",
        "system: from boot, under an account of its own; user: a LaunchAgent, from login (macOS); default: what is installed, else system",
      ).choices(["system", "user"]),
    )
    .addOption(
      new Option("--platform <name>").choices(["darwin", "linux"]).default(currentPlatform()).hideHelp(),
    )
    .addOption(new Option("--root <folder>").default("").hideHelp());
}

/** Of a flag in whole seconds. */
export function parseSeconds(text: string): number {
  const seconds = Number(text);
  if (Number.isInteger(seconds) && seconds >= 1 && seconds <= 86_400) return seconds;
  throw new InvalidArgumentError("a whole number of seconds from 1 to 86400 is needed");
}

export interface ChoiceOverrides {
  readonly user?: string | undefined;
  readonly stateDir?: string | undefined;
  readonly drainSeconds?: number | undefined;
}

/** As installed, changed by what the user wishes now. A record that cannot be read is replaced. */
export async function choicesFor(flags: InstallScopeFlags, wished: ChoiceOverrides = {}): Promise<Choices> {
  const installed = await installedChoices(flags).catch(ignoreUnreadable);
  const layout = freshLayout(flags, {
    scope: flags.scope ?? installed?.layout.scope ?? "system",
    account: wished.user ?? installed?.layout.account,
    stateDir: wished.stateDir ?? installed?.layout.stateDir,
  });
  const drainSeconds = wished.drainSeconds ?? installed?.drainSeconds ?? DRAIN_SECONDS;
  return { layout, drainSeconds };
}

/** Where the agent of the system will keep its files, before it is installed. */
export function systemLayout({
  platform,
  root,
}: Pick<InstallScopeFlags, "platform" | "root">): InstallLayout {
  return freshLayout({ platform, root }, { scope: "system" });
}

/** Throws InstallNotFound. What lost its install.json is found by its definition. */
export async function existingChoices(flags: InstallScopeFlags): Promise<Choices> {
  const installed = await installedChoices(flags);
  if (installed !== undefined) return installed;
  const choices = await choicesFor(flags);
  if (existsSync(choices.layout.definition) || existsSync(choices.layout.prefix)) return choices;
  throw new MetalbridgeError("InstallNotFound", `there is no ${choices.layout.definition}`);
}

/** `loadedDrainSeconds`: of the definition that the service manager has, which may be another than the one to come. */
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

/** With the folders of system programs, which a user's PATH may lack. */
export function toolPath(): string {
  return `${readEnvironment().toolPath}:/usr/sbin:/sbin:/usr/bin:/bin`;
}

export function ignoreUnreadable(error: unknown): undefined {
  if (!(error instanceof MetalbridgeError) || error.code !== "InstallUnreadable") throw error;
}

/** Undefined when nothing is installed. Throws InstallUnreadable. */
export async function installedChoices(flags: InstallScopeFlags): Promise<Choices | undefined> {
  const scopes: readonly Scope[] = flags.scope === undefined ? ["system", "user"] : [flags.scope];
  for (const scope of scopes) {
    const found = await readChoices(freshLayout(flags, { scope }).prefix);
    if (found !== undefined) return found;
  }
  return undefined;
}

function freshLayout(
  { platform, root }: InstallScopeFlags,
  wished: Pick<Parameters<typeof layoutFor>[0], "scope" | "account" | "stateDir">,
): InstallLayout {
  return layoutFor({ platform, root, home: homedir(), uid: process.getuid?.() ?? 0, ...wished });
}

export function currentPlatform(): "darwin" | "linux" {
  return process.platform === "darwin" ? "darwin" : "linux";
}
