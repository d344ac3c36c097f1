/** launchd and launchctl as recorded: jobs really run. Each behaviour cites the fact it stands for. */
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "plist";
import { send } from "../signal.ts";
import { type JobProcess, startJob } from "./job-process.ts";
import type { Answer, Call, Replayed } from "./replayed-commands.ts";

export interface LaunchdOptions {
  /** Real milliseconds of one second in a plist. */
  readonly msPerSecond?: number;
  /** After its process is gone, how long a booted-out job is still there. */
  readonly leaveMs?: number;
  /** Numbers of an account; undefined: unknown, so that the job cannot start. */
  readonly idsOf?: (account: string) => { readonly uid: number; readonly gid: number } | undefined;
  /** False: there is no domain gui/UID. */
  readonly hasLogin?: boolean;
  /** Added to the environment of jobs, such as a PATH with replayed commands. */
  readonly env?: Readonly<Record<string, string>>;
}

type PlistObject = Readonly<Record<string, unknown>>;

interface Job {
  readonly label: string;
  readonly domain: string;
  readonly path: string;
  readonly plist: PlistObject;
  state: "running" | "not running" | "spawn scheduled" | "SIGTERMed";
  process: JobProcess | undefined;
  runs: number;
  /** `last exit code` or `last terminating signal`: one replaces the other. */
  lastExit: { readonly key: string; readonly value: string };
  timer: NodeJS.Timeout | undefined;
}

export interface Launchd {
  readonly launchctl: Replayed;
  readonly pidOf: (label: string) => number | undefined;
  /** Labels of loaded jobs. */
  readonly labels: () => readonly string[];
  /** The next bootstraps fail with 5 for no visible reason. */
  readonly failBootstraps: (count: number) => void;
  /** All jobs end; then the plists of a folder are loaded, as those of /Library/LaunchDaemons at boot. */
  readonly reboot: (folder: string) => Promise<void>;
  readonly stopAll: () => Promise<void>;
}

const OK: Answer = {};
/** "Bootstrap failed: 5", for already loaded, still booting out, bad plist, owner or mode, disabled. */
const FAILED_5: Answer = {
  code: 5,
  err: "Bootstrap failed: 5: Input/output error\nTry re-running the command as root for richer errors.\n",
};
const SIGNALS: Readonly<Record<string, string>> = { SIGTERM: "Terminated: 15", SIGKILL: "Killed: 9" };
/** The default that `launchctl print` was seen to show. */
const EXIT_TIMEOUT_SECONDS = 5;
const THROTTLE_SECONDS = 10;

export function startLaunchd(options: LaunchdOptions = {}): Launchd {
  const { msPerSecond = 100, leaveMs = 50, idsOf = () => undefined, env = {}, hasLogin = true } = options;
  const jobs = new Map<string, Job>();
  const disabled = new Set<string>();
  let failures = 0;

  const secondsOf = (job: Job, key: string, fallback: number) =>
    Number(job.plist[key] ?? fallback) * msPerSecond;

  const run = async (job: Job): Promise<void> => {
    const { plist } = job;
    job.runs += 1;
    job.timer = undefined;
    const ids = plist.UserName === undefined ? userOf(job.domain) : idsOf(String(plist.UserName));
    const child =
      plist.UserName !== undefined && ids === undefined
        ? undefined
        : await startJob({
            argv: (plist.ProgramArguments ?? []) as string[],
            // launchd's own PATH lacks /opt/homebrew/bin and /usr/local/bin.
            env: {
              PATH: "/usr/bin:/bin:/usr/sbin:/sbin",
              XPC_SERVICE_NAME: job.label,
              ...((plist.EnvironmentVariables ?? {}) as Record<string, string>),
              ...env,
            },
            output: plist.StandardErrorPath as string | undefined,
            ...ids,
          });
    job.process = child;
    if (child === undefined) {
      // Missing program; bad log path (unverified).
      job.lastExit = { key: "last exit code", value: "78: EX_CONFIG" };
      return respawn(job, 0);
    }
    if (job.state === "SIGTERMed") child.stop(0);
    else job.state = "running";
    child.exited.then(({ code, signal }) => onExit(job, child, code, signal)).catch(() => undefined);
  };

  const onExit = (job: Job, child: JobProcess, code: number | null, signal: NodeJS.Signals | null): void => {
    job.process = undefined;
    job.lastExit =
      signal === null
        ? { key: "last exit code", value: String(code) }
        : { key: "last terminating signal", value: SIGNALS[signal] ?? signal };
    // AbandonProcessGroup false: every process left in the job's group is killed.
    if (job.plist.AbandonProcessGroup !== true) send(-child.pid, "SIGKILL");
    if (job.state === "SIGTERMed") {
      setTimeout(() => forget(job), leaveMs);
      return;
    }
    if (job.plist.KeepAlive === true) respawn(job, performance.now() - child.startedMs);
    else job.state = "not running";
  };

  /** After a restart of the machine another job may have its label. */
  const forget = (job: Job): void => {
    const key = `${job.domain}/${job.label}`;
    if (jobs.get(key) === job) jobs.delete(key);
  };

  /** ThrottleInterval counts from spawn to spawn. */
  const respawn = (job: Job, ranMs: number): void => {
    if (job.state === "SIGTERMed") return;
    job.state = "spawn scheduled";
    const delayMs = Math.max(0, secondsOf(job, "ThrottleInterval", THROTTLE_SECONDS) - ranMs);
    job.timer = setTimeout(() => void run(job), delayMs);
  };

  const bootstrap = ([domain = "", path = ""]: readonly string[], euid: number): Answer => {
    if (!/^(system|(gui|user)\/\d+)$/.test(domain))
      return { code: 125, err: "Domain does not support specified action\n" };
    if (failures > 0) {
      failures -= 1;
      return FAILED_5;
    }
    const plist = usablePlist(path, domain, euid);
    const label = plist?.Label;
    if (plist === undefined || typeof label !== "string") return FAILED_5;
    const key = `${domain}/${label}`;
    // Already loaded, and still booting out, are the same answer; so is a disabled label (unverified).
    if (jobs.has(key) || disabled.has(key)) return FAILED_5;
    const job: Job = {
      label,
      domain,
      path,
      plist,
      state: "not running",
      process: undefined,
      runs: 0,
      timer: undefined,
      lastExit: { key: "last exit code", value: "(never exited)" },
    };
    jobs.set(key, job);
    if (plist.RunAtLoad === true || plist.KeepAlive === true) void run(job);
    return OK;
  };

  const bootout = ([target = ""]: readonly string[]): Answer => {
    const job = jobs.get(target);
    if (job === undefined) return { code: 3, err: "Boot-out failed: 3: No such process\n" };
    if (job.state === "SIGTERMed")
      return { code: 37, err: "Boot-out failed: 37: Operation already in progress\n" };
    const isIdle = job.process === undefined;
    job.state = "SIGTERMed";
    clearTimeout(job.timer);
    job.process?.stop(secondsOf(job, "ExitTimeOut", EXIT_TIMEOUT_SECONDS));
    if (isIdle) setTimeout(() => forget(job), leaveMs);
    // Asynchronous: it returns while the job is still there.
    return OK;
  };

  const kickstart = (args: readonly string[]): Answer => {
    const target = args.at(-1) ?? "";
    const job = jobs.get(target);
    if (job === undefined) return notFound(target);
    if (job.process === undefined) {
      clearTimeout(job.timer);
      void run(job);
      return OK;
    }
    if (!args.includes("-k")) return OK;
    const { process: old } = job;
    old.stop(secondsOf(job, "ExitTimeOut", EXIT_TIMEOUT_SECONDS));
    old.exited
      .then(() => {
        // Runs whatever ThrottleInterval says.
        if (job.timer === undefined) return;
        clearTimeout(job.timer);
        void run(job);
      })
      .catch(() => undefined);
    return OK;
  };

  const kill = ([signal = "", target = ""]: readonly string[]): Answer => {
    const pid = jobs.get(target)?.process?.pid;
    if (pid === undefined) return { code: 3, err: "Could not kill service: 3: No such process\n" };
    process.kill(pid, signal);
    return OK;
  };

  const reading: Readonly<Record<string, (target: string) => Answer>> = {
    "print-disabled": (domain) => ({ out: printDisabled(disabled, domain) }),
    print: (target) => {
      const job = jobs.get(target);
      return job === undefined ? notFound(target) : { out: printJob(job) };
    },
  };
  const changing: Readonly<Record<string, (rest: readonly string[], euid: number) => Answer>> = {
    bootstrap,
    bootout,
    kickstart,
    kill,
    enable: ([target = ""]) => change(() => disabled.delete(target)),
    disable: ([target = ""]) => change(() => disabled.add(target)),
  };
  const launchctl = ({ args: [verb = "", ...rest], euid }: Call): Answer => {
    // Unsupported domain: without a login at the screen, as on a headless Mac.
    if (!hasLogin && rest.some((one) => one.startsWith("gui/")))
      return { code: 125, err: "Domain does not support specified action\n" };
    const read = reading[verb];
    if (read !== undefined) return read(rest[0] ?? "");
    const isSystem = rest.some((one) => one.startsWith("system"));
    if (isSystem && euid !== 0)
      return verb === "bootstrap" ? FAILED_5 : { code: 1, err: "Not privileged to perform this action.\n" };
    return changing[verb]?.(rest, euid) ?? { code: 64, err: `Unrecognized subcommand: ${verb}\n` };
  };

  const stopAll = async (): Promise<void> => {
    for (const job of jobs.values()) {
      job.state = "SIGTERMed";
      clearTimeout(job.timer);
      job.process?.stop(5_000);
      await job.process?.exited;
    }
    jobs.clear();
  };

  return {
    launchctl,
    stopAll,
    pidOf: (label) => [...jobs.values()].find((job) => job.label === label)?.process?.pid,
    labels: () => [...jobs.values()].map(({ label }) => label),
    failBootstraps: (count) => {
      failures = count;
    },
    reboot: async (folder) => {
      await stopAll();
      for (const name of readdirSync(folder)) bootstrap(["system", join(folder, name)], 0);
    },
  };
}

/** A job of a login session runs as its user. */
function userOf(domain: string): { readonly uid: number } | undefined {
  const uid = /^(?:gui|user)\/(\d+)$/.exec(domain)?.[1];
  return uid === undefined ? undefined : { uid: Number(uid) };
}

/** Undefined where bootstrap says 5: unreadable, malformed, or of the wrong owner or mode. */
function usablePlist(path: string, domain: string, euid: number): PlistObject | undefined {
  try {
    const { uid, mode } = lstatSync(path);
    if ((mode & 0o022) !== 0 || uid !== (domain === "system" ? 0 : euid)) return undefined;
    return parse(readFileSync(path, "utf8")) as PlistObject;
  } catch {
    return undefined;
  }
}

function change(act: () => unknown): Answer {
  act();
  return OK;
}

function notFound(target: string): Answer {
  const label = target.split("/").at(-1);
  const domain = target.startsWith("gui") ? `user gui: ${target.split("/")[1]}` : "system";
  return { code: 113, err: `Could not find service "${label}" in domain for ${domain}\n` };
}

function printDisabled(disabled: ReadonlySet<string>, domain: string): string {
  const labels = [...disabled]
    .filter((key) => key.startsWith(`${domain}/`))
    .map((key) => key.slice(domain.length + 1));
  return `\n\tdisabled services = {\n${labels.map((label) => `\t\t"${label}" => disabled\n`).join("")}\t}\n`;
}

/** The recorded form: nested blocks reuse the keys of the job. */
function printJob({ domain, label, path, plist, state, process: child, runs, lastExit }: Job): string {
  const [program = ""] = (plist.ProgramArguments ?? []) as string[];
  return `${[
    `${domain}/${label} = {`,
    `\tactive count = ${child === undefined ? 0 : 1}`,
    `\tpath = ${path}`,
    `\ttype = ${domain === "system" ? "LaunchDaemon" : "LaunchAgent"}`,
    `\tstate = ${state}`,
    "",
    `\tprogram = ${program}`,
    "\tinherited environment = {",
    "\t\tpath = /usr/bin:/bin",
    "\t\tstate = inherited",
    "\t}",
    `\tminimum runtime = ${plist.ThrottleInterval ?? THROTTLE_SECONDS}`,
    `\texit timeout = ${plist.ExitTimeOut ?? EXIT_TIMEOUT_SECONDS}`,
    `\truns = ${runs}`,
    ...(child === undefined ? [] : [`\tpid = ${child.pid}`]),
    `\t${lastExit.key} = ${lastExit.value}`,
    "\tspawn type = daemon (3)",
    "\tproperties = keepalive | runatload",
    "}",
  ].join("\n")}\n`;
}
