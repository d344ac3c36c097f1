/** One long-lived part of the farm that faults end, freeze, restart and whose wall clock they step. */
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type Part, startPart } from "../../bed/part.ts";
import type { Release } from "../../bed/release.ts";

export interface ControlledPart {
  readonly logFile: string;
  readonly pid: () => number | undefined;
  readonly isRunning: () => boolean;
  readonly release: () => Release;
  /** Another version from the next start on. */
  readonly install: (release: Release) => void;
  readonly start: () => void;
  /** Sets the callback for an exit that was not requested. */
  readonly onUnasked: (tell: (code: number | null) => void) => void;
  readonly kill: (signal: "SIGKILL" | "SIGTERM") => Promise<void>;
  readonly freeze: () => void;
  readonly thaw: () => void;
  readonly stepClock: (offsetMs: number) => void;
  readonly dispose: () => Promise<void>;
}

export interface PartOptions {
  readonly name: string;
  readonly dir: string;
  readonly args: readonly string[];
  /** Before the command line. */
  readonly inside: readonly string[];
  readonly release: Release;
}

const CLOCK_STEP = path.join(import.meta.dirname, "clock-step.mjs");
const LOOK_MS = 100;

/** Nothing runs until `start`. */
export function controlPart(options: PartOptions): ControlledPart {
  const { name, dir, args, inside } = options;
  const logFile = path.join(dir, `${name}.log`);
  const clockFile = path.join(dir, `${name}.clock`);
  const launcher = [
    ...["env", `TORTURE_CLOCK_FILE=${clockFile}`, ...inside],
    ...[process.execPath, "--import", CLOCK_STEP],
  ];
  let release = options.release;
  let part: Part | undefined;
  let isAsked = false;
  let tellUnasked = (_code: number | null): void => {};
  const look = setInterval(() => {
    if (part === undefined || part.isRunning() || isAsked) return;
    const code = part.exitCode() ?? null;
    part = undefined;
    tellUnasked(code);
  }, LOOK_MS);
  const signal = (which: NodeJS.Signals): void => {
    if (part?.isRunning() === true) process.kill(part.pid, which);
  };
  const kill = async (which: "SIGKILL" | "SIGTERM"): Promise<void> => {
    isAsked = true;
    signal("SIGCONT");
    await part?.kill(which);
    part = undefined;
  };
  return {
    logFile,
    pid: () => (part?.isRunning() === true ? part.pid : undefined),
    isRunning: () => part?.isRunning() === true,
    release: () => release,
    install: (next) => {
      release = next;
    },
    start: () => {
      if (part?.isRunning() === true) return;
      isAsked = false;
      part = startPart(args, logFile, release.program, launcher);
    },
    onUnasked: (tell) => {
      tellUnasked = tell;
    },
    kill,
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    stepClock: (offsetMs) => {
      writeFileSync(clockFile, String(offsetMs));
      signal("SIGUSR2");
    },
    dispose: async () => {
      clearInterval(look);
      await kill("SIGTERM");
    },
  };
}
