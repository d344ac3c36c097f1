/** The agent's job in launchd. */
import { lstat } from "node:fs/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LAUNCHD_LABEL } from "../../src/api/group.ts";
import { NO_DOMAIN, NOT_FOUND, parseJobFields } from "../../src/macos/launchctl.ts";
import { parseCount } from "../../src/macos/parse.ts";
import { type Command, type CommandResult, commandFailure } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { InstallLayout } from "../layout/layout.ts";
import type { ManagedJob } from "../plan/observed.ts";
import type { ServiceManager } from "../ports.ts";
import { pollUntil } from "../wait.ts";

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

export function createLaunchctl(ports: LaunchctlPorts): ServiceManager {
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

export interface BootstrapFacts {
  readonly exitCode: number;
  readonly definition: string;
  /** The job after the failure. */
  readonly job: ManagedJob;
  /** The message of plutil; undefined if the plist is well-formed or plutil could not run. */
  readonly plistFault: string | undefined;
  readonly file: { readonly uid: number; readonly mode: number } | undefined;
  /** Required owner of the file: root in the system domain. */
  readonly ownerUid: number;
  readonly euid: number;
  readonly domain: string;
}

/** An error is final. leaving: wait until the job is unloaded, and retry. disabled: enable the label, and retry. */
type BootstrapFailure = "loaded" | "leaving" | "disabled" | "retry" | MetalbridgeError;

const WRITABLE_BY_OTHERS = 0o022;

/** Checks the most specific cause first. */
export function classifyBootstrap(facts: BootstrapFacts): BootstrapFailure {
  const { job, definition, domain, exitCode } = facts;
  if (domain === "system" && facts.euid !== 0)
    return new MetalbridgeError("RootRequired", "only root can change launchd's system domain");
  if (exitCode === NO_DOMAIN)
    return new MetalbridgeError(
      "ServiceLoadFailed",
      `launchd has no domain ${domain}: no user is logged in at the screen`,
    );
  if (job.at === "loaded" && job.isLeaving) return "leaving";
  if (job.at === "loaded" && job.path !== undefined && job.path !== definition)
    return new MetalbridgeError("ServiceForeign", `launchd already has this label, loaded from ${job.path}`);
  if (job.at === "loaded") return "loaded";
  const fault = fileFault(facts);
  if (fault !== undefined) return new MetalbridgeError("ServiceLoadFailed", fault);
  return job.isDisabled ? "disabled" : "retry";
}

function fileFault({ file, definition, ownerUid, plistFault }: BootstrapFacts): string | undefined {
  if (file === undefined) return `${definition} does not exist`;
  if (file.uid !== ownerUid) return `${definition} belongs to uid ${file.uid}, not to ${ownerUid}`;
  if ((file.mode & WRITABLE_BY_OTHERS) === 0) return plistFault;
  return `${definition} can be written by others (mode ${file.mode.toString(8)})`;
}

/** Reads `launchctl print`. */
export function parseJob(text: string, isDisabled: boolean): ManagedJob {
  const fields = parseJobFields(text);
  const state = fields.get("state") ?? "unknown";
  const exitCode = fields.get("last exit code");
  return {
    at: "loaded",
    isDisabled,
    path: fields.get("path"),
    state,
    pid: parseCount(fields.get("pid")),
    runs: parseCount(fields.get("runs")),
    // A signal has a separate key and replaces the exit code.
    lastExit: fields.get("last terminating signal") ?? (exitCode === "(never exited)" ? undefined : exitCode),
    isLeaving: /^SIG(TERM|KILL)/.test(state),
  };
}

/** Reads `launchctl print-disabled DOMAIN`: `"label" => disabled`, or `=> true` on older versions. */
export function isDisabledIn(text: string, label: string): boolean {
  return text.split("\n").some((line) => {
    const match = /^\s*"([^"]+)" => (\w+)/.exec(line);
    return match?.[1] === label && (match[2] === "disabled" || match[2] === "true");
  });
}
