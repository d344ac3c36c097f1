/** Keeps a Mac awake while engines run, with a power assertion of `caffeinate` that ends when this process exits or crashes. */
import { type ChildProcess, spawn } from "node:child_process";
import type { Clock, Log } from "../../src/util/ports.ts";
import { msToAlignedTime } from "../../src/util/shared-ticks.ts";

export interface AwakeOptions {
  /** The PATH that has `caffeinate`. */
  readonly path: string;
  readonly hasEngines: () => boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** The interval of the agent's other periodic work; a Mac waits for minutes before it sleeps. */
const CHECK_MS = 5_000;

/** Holds the assertion while there are engines. The assertion prevents idle sleep; a closed lid still puts the Mac to sleep. */
export function keepAwake({ path, hasEngines, clock, log, signal }: AwakeOptions): void {
  let child: ChildProcess | undefined;
  let isUnavailable = false;
  const hold = (): void => {
    const started = spawn("caffeinate", ["-i", "-w", String(process.pid)], {
      stdio: "ignore",
      env: { PATH: path },
    });
    child = started;
    started.unref();
    started.once("error", (err) => {
      isUnavailable = true;
      child = undefined;
      log.warn({ err }, "cannot keep this machine awake while engines run");
    });
    started.once("exit", () => {
      if (child === started) child = undefined;
    });
  };
  const check = (): void => {
    cancel = clock.after(msToAlignedTime(clock.monotonicMs(), CHECK_MS), check);
    const isNeeded = hasEngines() && !isUnavailable;
    if (isNeeded && child === undefined) hold();
    if (!isNeeded) release();
  };
  const release = (): void => {
    child?.kill("SIGTERM");
    child = undefined;
  };
  let cancel = clock.after(0, check);
  signal.addEventListener(
    "abort",
    () => {
      cancel();
      release();
    },
    { once: true },
  );
}
