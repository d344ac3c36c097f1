/** A rendered container as a process of this machine: its mounts are folders, and its secrets are given. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as after } from "node:timers/promises";
import { SEND_FIRST_TERM } from "../../controller/pods/workload/drain.ts";
import type { End } from "../../controller/pods/workload/fixtures/interop-facts.ts";
import type { Container } from "../../src/kube/workload-objects.ts";

export const KEY = "a-key-of-clients";
const LINE_MAX = 300;
/** Engines of Python import for a minute on a busy machine. */
const LOG_MS = 300_000;

export interface Place {
  /** Holds what is mounted, by the paths in the container. */
  readonly folder: string;
  /** In place of the image's entry point. */
  readonly program?: string | undefined;
  /** Beside the variables of the container. */
  readonly env: Readonly<Record<string, string>>;
}

export interface PodProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly log: () => string;
  readonly hasEnded: () => boolean;
  readonly ended: Promise<End>;
  /** Resolves once the log has the pattern or the process has exited; rejects after five minutes. */
  readonly until: (pattern: RegExp) => Promise<void>;
}

export function startContainer({ command = [], args = [], env = [] }: Container, place: Place): PodProcess {
  const [program = "", ...rest] = place.program === undefined ? command : [place.program, ...command];
  const variables = env.map(({ name, value }) => [name, inFolder(String(value ?? KEY), place.folder)]);
  // As a kubelet does: two dollars are one.
  const given = args.map((text) => inFolder(text.replaceAll("$$(", "$("), place.folder));
  const child = spawn(program, [...rest, ...given], {
    // A group of its own, since engines of Python start processes.
    detached: true,
    env: { ...Object.fromEntries(variables), ...place.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => {
      log += chunk.toString();
    });
  let isOver = false;
  const ended = once(child, "close").then(([exitCode, signal]): End => {
    isOver = true;
    return { exitCode, signal, lastLine: lastLineOf(log, place) };
  });
  const dispose = async () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // No process of the group is left.
    }
    await ended;
  };
  const until = (pattern: RegExp) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (pattern.test(log)) resolve();
      };
      look();
      for (const stream of [child.stdout, child.stderr]) stream.on("data", look);
      void ended.then(() => resolve());
      void after(LOG_MS, undefined, { ref: false }).then(() =>
        reject(new Error(`no line ${pattern} in time`)),
      );
    });
  return { child, log: () => log, hasEnded: () => isOver, ended, until, [Symbol.asyncDispose]: dispose };
}

/** Resolves with its exit code. It has the tools of this machine on PATH. */
export function startPreStop({ lifecycle }: Container, { folder }: Place, engine: PodProcess) {
  const { exec } = (lifecycle as { preStop: { exec: { command: string[] } } }).preStop;
  const [shell = "", ...rest] = exec.command.map((text) =>
    text
      .replaceAll("/etc/metalbridge/", `${folder}/etc/metalbridge/`)
      // Here process 1 is that of the whole machine.
      .replace(SEND_FIRST_TERM, SEND_FIRST_TERM.replace("1 ", `${engine.child.pid} `)),
  );
  const child = spawn(shell, rest, { stdio: ["ignore", "ignore", "ignore"] });
  let isOver = false;
  const ended = once(child, "close").then(([exitCode]: (number | null)[]) => {
    isOver = true;
    return exitCode ?? null;
  });
  return { hasEnded: () => isOver, ended };
}

/** How it ended, or undefined if it has not after `ms`. */
export function endWithin(pod: PodProcess, ms: number): Promise<End | undefined> {
  return Promise.race([pod.ended, after(ms, undefined, { ref: false })]);
}

/** The paths of mounts, at the beginning of an argument or a variable. */
export function inFolder(text: string, folder: string): string {
  return /^\/(models|slots|tmp|etc\/metalbridge)(\/|$)/.test(text) ? `${folder}${text}` : text;
}

/** Without what differs from run to run. */
function lastLineOf(log: string, { folder }: Place): string {
  const line = log.trim().split("\n").at(-1) ?? "";
  return line
    .replaceAll(folder, "")
    .replace(/pid=\d+/, "pid=N")
    .replace(/^(\d+\.)+\d+ /, "")
    .slice(0, LINE_MAX);
}
