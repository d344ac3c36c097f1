/** The agent's job in launchd. */
import { lstat } from "node:fs/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type Command, type CommandResult, commandFailure } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import { type InstallLayout, LABEL } from "../layout/layout.ts";
import type { ManagedJob } from "../plan/observed.ts";
import type { Supervisor } from "../ports.ts";
import { pollUntil } from "../wait.ts";
import { type BootstrapFailure, classifyBootstrap } from "./classify.ts";
import { isDisabledIn, jobOf, NO_DOMAIN, NOT_FOUND, parsePrint } from "./print.ts";

const NO_SUCH_PROCESS = 3;
/** There is no such job. */
const NONE: readonly number[] = [NO_SUCH_PROCESS, NOT_FOUND, NO_DOMAIN];
/** "Operation already in progress", "Operation now in progress": it leaves already. */
const IN_PROGRESS: readonly number[] = [36, 37];
/** For causes that pass, such as a job that launchd is still cleaning up. */
const RETRY_MS = 10_000;

export interface LaunchctlPorts {
  readonly run: Command;
  readonly clock: Clock;
  readonly euid: number;
  readonly layout: Pick<InstallLayout, "domain" | "definition">;
  /** Longest time from bootout until the job is gone: the plist's ExitTimeOut and a margin. */
  readonly leaveMs: number;
}

export function createLaunchctl(ports: LaunchctlPorts): Supervisor {
  const { run, clock, layout, leaveMs } = ports;
  const { domain } = layout;
  const target = `${domain}/${LABEL}`;
  const observe = () => observeJob(run, domain);
  const gone = () => pollUntil(clock, leaveMs, async () => (await observe()).at === "absent");
  const waitUntilGone = async (): Promise<void> => {
    if (await gone()) return;
    throw new MetalbridgeError("ServiceLoadFailed", `${target} is still stopping after ${leaveMs / 1_000} s`);
  };
  const bootstrap = async (): Promise<void> => {
    let last = "";
    const isLoaded = await pollUntil(clock, RETRY_MS + leaveMs, async () => {
      const result = await run("launchctl", ["bootstrap", domain, layout.definition]);
      if (result.exitCode === 0) return true;
      const cause = classifyBootstrap(await factsOf(ports, result, await observe()));
      last = "why" in cause ? cause.why : "";
      return actOn(cause, { enable: () => run("launchctl", ["enable", target]), waitUntilGone });
    });
    if (!isLoaded) throw new MetalbridgeError("ServiceLoadFailed", `launchctl bootstrap: ${last}`);
  };
  const unload = async (): Promise<void> => {
    const result = await run("launchctl", ["bootout", target]);
    if (NONE.includes(result.exitCode)) return;
    if (result.exitCode !== 0 && !IN_PROGRESS.includes(result.exitCode) && (await observe()).at === "loaded")
      throw new MetalbridgeError("ServiceLoadFailed", `launchctl bootout: ${commandFailure(result)}`);
    await waitUntilGone();
  };
  const load = async (): Promise<void> => {
    const job = await observe();
    if (job.at === "loaded" && !job.isLeaving) return;
    if (job.at === "loaded") await waitUntilGone();
    if (job.isDisabled) await run("launchctl", ["enable", target]);
    await bootstrap();
  };
  const restart = async (): Promise<void> => {
    const result = await run("launchctl", ["kickstart", "-k", target]);
    if (NONE.includes(result.exitCode)) return load();
    if (result.exitCode !== 0)
      throw new MetalbridgeError("ServiceLoadFailed", `launchctl kickstart: ${commandFailure(result)}`);
  };
  const kill = async (): Promise<void> => {
    // Without a process it fails, and there is nothing to do.
    await run("launchctl", ["kill", "SIGKILL", target]);
  };
  return { observe, load, unload, restart, kill, forget: async () => undefined };
}

async function observeJob(run: Command, domain: string): Promise<ManagedJob> {
  const printed = await run("launchctl", ["print", `${domain}/${LABEL}`]);
  const disabled = await run("launchctl", ["print-disabled", domain]);
  const isDisabled = disabled.exitCode === 0 && isDisabledIn(disabled.stdout, LABEL);
  if (printed.exitCode === 0) return jobOf(parsePrint(printed.stdout), isDisabled);
  if (NONE.includes(printed.exitCode) || /could not find/i.test(printed.stderr))
    return { at: "absent", isDisabled };
  throw new MetalbridgeError("ServiceLoadFailed", `launchctl print: ${commandFailure(printed)}`);
}

/** Whether it is loaded now; false tries once more. */
async function actOn(
  cause: BootstrapFailure,
  acts: { readonly enable: () => Promise<CommandResult>; readonly waitUntilGone: () => Promise<void> },
): Promise<boolean> {
  switch (cause.do) {
    case "nothing":
      return true;
    case "wait until gone":
      await acts.waitUntilGone();
      return false;
    case "enable":
      await acts.enable();
      return false;
    case "retry":
      return false;
    case "fail":
      throw new MetalbridgeError(cause.code, cause.why);
    default:
      return cause satisfies never;
  }
}

async function factsOf({ run, euid, layout }: LaunchctlPorts, result: CommandResult, job: ManagedJob) {
  const { domain, definition } = layout;
  const found = await lstat(definition).catch(() => undefined);
  const lint = await run("plutil", ["-lint", definition]);
  return {
    exitCode: result.exitCode,
    said: commandFailure(result),
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
