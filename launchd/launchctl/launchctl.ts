/** The agent's job in launchd. */
import { lstat } from "node:fs/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LAUNCHD_LABEL } from "../../src/api/group.ts";
import { NO_DOMAIN, NOT_FOUND } from "../../src/macos/launchctl.ts";
import { type Command, type CommandResult, commandFailure } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { InstallLayout } from "../layout/layout.ts";
import type { ManagedJob } from "../plan/observed.ts";
import type { Supervisor } from "../ports.ts";
import { pollUntil } from "../wait.ts";
import { classifyBootstrap } from "./classify.ts";
import { isDisabledIn, parseJob } from "./print.ts";

const NO_SUCH_PROCESS = 3;
/** Exit codes for a missing job. */
const MISSING: readonly number[] = [NO_SUCH_PROCESS, NOT_FOUND, NO_DOMAIN];
/** Exit codes for "Operation already in progress" and "Operation now in progress": the job is already being unloaded. */
const IN_PROGRESS: readonly number[] = [36, 37];
/** Retry limit for temporary causes, such as a job that launchd is still cleaning up. */
const RETRY_MS = 10_000;

export interface LaunchctlPorts {
  readonly run: Command;
  readonly clock: Clock;
  readonly euid: number;
  readonly layout: Pick<InstallLayout, "domain" | "definition">;
  /** Maximum time from bootout until the job is unloaded: the plist's ExitTimeOut and a margin. */
  readonly leaveMs: number;
}

export function createLaunchctl(ports: LaunchctlPorts): Supervisor {
  const { run, clock, layout, leaveMs } = ports;
  const { domain } = layout;
  const target = `${domain}/${LAUNCHD_LABEL}`;
  const observe = () => observeJob(run, domain);
  const enable = () => run("launchctl", ["enable", target]);
  const waitUntilUnloaded = async (): Promise<void> => {
    if (await pollUntil(clock, leaveMs, async () => (await observe()).at === "absent")) return;
    throw new MetalbridgeError("ServiceLoadFailed", `${target} is still stopping after ${leaveMs / 1_000} s`);
  };
  const bootstrap = async (): Promise<void> => {
    let last = "";
    const isLoaded = await pollUntil(clock, RETRY_MS + leaveMs, async () => {
      const result = await run("launchctl", ["bootstrap", domain, layout.definition]);
      if (result.exitCode === 0) return true;
      last = commandFailure(result);
      const failure = classifyBootstrap(await factsOf(ports, result, await observe()));
      if (failure instanceof MetalbridgeError) throw failure;
      if (failure === "leaving") await waitUntilUnloaded();
      if (failure === "disabled") await enable();
      return failure === "loaded";
    });
    if (!isLoaded) throw new MetalbridgeError("ServiceLoadFailed", `launchctl bootstrap: ${last}`);
  };
  const unload = async (): Promise<void> => {
    const result = await run("launchctl", ["bootout", target]);
    if (MISSING.includes(result.exitCode)) return;
    if (result.exitCode !== 0 && !IN_PROGRESS.includes(result.exitCode) && (await observe()).at === "loaded")
      throw new MetalbridgeError("ServiceLoadFailed", `launchctl bootout: ${commandFailure(result)}`);
    await waitUntilUnloaded();
  };
  const load = async (): Promise<void> => {
    const job = await observe();
    if (job.at === "loaded" && !job.isLeaving) return;
    if (job.at === "loaded") await waitUntilUnloaded();
    if (job.isDisabled) await enable();
    await bootstrap();
  };
  const restart = async (): Promise<void> => {
    const result = await run("launchctl", ["kickstart", "-k", target]);
    if (MISSING.includes(result.exitCode)) return load();
    if (result.exitCode !== 0)
      throw new MetalbridgeError("ServiceLoadFailed", `launchctl kickstart: ${commandFailure(result)}`);
  };
  const kill = async (): Promise<void> => {
    // The command fails without a process, which needs no action.
    await run("launchctl", ["kill", "SIGKILL", target]);
  };
  return { observe, load, unload, restart, kill, forget: async () => undefined };
}

async function observeJob(run: Command, domain: string): Promise<ManagedJob> {
  const printed = await run("launchctl", ["print", `${domain}/${LAUNCHD_LABEL}`]);
  const disabled = await run("launchctl", ["print-disabled", domain]);
  const isDisabled = disabled.exitCode === 0 && isDisabledIn(disabled.stdout, LAUNCHD_LABEL);
  if (printed.exitCode === 0) return parseJob(printed.stdout, isDisabled);
  if (MISSING.includes(printed.exitCode) || /could not find/i.test(printed.stderr))
    return { at: "absent", isDisabled };
  throw new MetalbridgeError("ServiceLoadFailed", `launchctl print: ${commandFailure(printed)}`);
}

async function factsOf({ run, euid, layout }: LaunchctlPorts, result: CommandResult, job: ManagedJob) {
  const { domain, definition } = layout;
  const found = await lstat(definition).catch(() => undefined);
  const lint = await run("plutil", ["-lint", definition]);
  return {
    exitCode: result.exitCode,
    definition,
    job,
    domain,
    euid,
    plistFault:
      lint.exitCode === 1 ? commandFailure({ ...lint, stderr: lint.stdout + lint.stderr }) : undefined,
    file: found === undefined ? undefined : { uid: found.uid, mode: found.mode & 0o7777 },
    ownerUid: domain === "system" ? 0 : euid,
  };
}
