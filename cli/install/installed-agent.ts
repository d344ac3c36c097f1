/** The installed agent: what doctor checks and join stores a credential for, unless they are given another. */
import { spawnSync } from "node:child_process";
import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { agentEnvironment } from "../../launchd/layout/agent-command.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type InstallScopeFlags, installedChoices } from "./context.ts";

export interface InstalledAgent {
  readonly configFile: string;
  readonly stateDir: string;
  /** Where its versions and engines are. */
  readonly prefix: string;
  /** As launchd or systemd gives it to an agent with an account of its own. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Undefined when none is installed. From here on this process has the agent's rights and no others: root would find
 * readable what the agent cannot read, leave files that it cannot change, and run the engines of others as root. Throws
 * RootRequired.
 */
export async function becomeAgentUser(flags: InstallScopeFlags): Promise<InstalledAgent | undefined> {
  const installed = await installedChoices(flags);
  if (installed === undefined) return undefined;
  const { account, stateDir, configFile, prefix } = installed.layout;
  const owner = await stat(stateDir).catch(() => undefined);
  if (account === undefined || owner === undefined) return { configFile, stateDir, prefix };
  const euid = process.geteuid?.();
  if (euid === 0) takeRights(account, owner);
  else if (euid !== owner.uid)
    throw new MetalbridgeError(
      "RootRequired",
      `the agent runs as ${account}, and ${stateDir} is closed to others`,
    );
  return { configFile, stateDir, prefix, env: environmentBesideAgent(stateDir) };
}

/**
 * The agent's environment for a process that root has started and that keeps root's terminal: programs are looked for and
 * run, and those in a cache below the agent's folder are its account's.
 */
export function environmentBesideAgent(stateDir: string): NonNullable<InstalledAgent["env"]> {
  return { ...agentEnvironment(stateDir), METALBRIDGE_CACHE: "/var/empty" };
}

function takeRights(account: string, { uid, gid }: Stats): void {
  // The folder that sudo was called in may be closed to the account.
  process.chdir("/");
  process.setgroups?.([gid, ...groupsOf(account)]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** Those that a GPU's device is open to, for example. */
function groupsOf(account: string): readonly number[] {
  const { stdout } = spawnSync("id", ["-G", account], { encoding: "utf8" });
  return (stdout ?? "").split(/\s+/).filter(Boolean).map(Number);
}
