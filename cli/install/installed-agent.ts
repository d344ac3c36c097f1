/** The installed agent, which doctor and join use by default. */
import { spawnSync } from "node:child_process";
import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { agentEnvironment } from "../../launchd/layout/agent-command.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type InstallScopeFlags, installedChoices } from "./context.ts";

export interface InstalledAgent {
  readonly configFile: string;
  readonly stateDir: string;
  /** Folder of the installed versions and engines. */
  readonly prefix: string;
  /** The environment from launchd or systemd for an agent with a separate account. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/**
 * Undefined if no agent is installed. Switches this process to the account of the agent for good: root could read files that
 * the agent cannot read, create files that the agent cannot change, and run engines of other accounts as root. Throws
 * RootRequired.
 */
export async function becomeAgentUser(flags: InstallScopeFlags): Promise<InstalledAgent | undefined> {
  const installed = await installedChoices(flags);
  if (installed === undefined) return undefined;
  const { account, stateDir, configFile, prefix } = installed.layout;
  const owner = await stat(stateDir).catch(() => undefined);
  if (account === undefined || owner === undefined) return { configFile, stateDir, prefix };
  const euid = process.geteuid?.();
  if (euid === 0) switchAccount(account, owner);
  else if (euid !== owner.uid)
    throw new MetalbridgeError(
      "RootRequired",
      `the agent runs as ${account}, and other users cannot read ${stateDir}`,
    );
  return { configFile, stateDir, prefix, env: environmentBesideAgent(stateDir) };
}

/**
 * The environment of the agent for a process that root has started and that has the terminal of root. The process searches and
 * runs programs, so it must not use a cache that the account of the agent can change.
 */
export function environmentBesideAgent(stateDir: string): NonNullable<InstalledAgent["env"]> {
  return { ...agentEnvironment(stateDir), METALBRIDGE_CACHE: "/var/empty" };
}

function switchAccount(account: string, { uid, gid }: Stats): void {
  // The account may have no access to the current folder.
  process.chdir("/");
  process.setgroups?.([gid, ...groupsOf(account)]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

/** All groups of the account, such as the group with access to the GPU. */
function groupsOf(account: string): readonly number[] {
  const { stdout } = spawnSync("id", ["-G", account], { encoding: "utf8" });
  return (stdout ?? "").split(/\s+/).filter(Boolean).map(Number);
}
