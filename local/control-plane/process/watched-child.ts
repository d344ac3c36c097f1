/** One run of one program under the watchdog. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import type { Writable } from "node:stream";
import type { Component } from "../components/component.ts";
import { watchdogArgv } from "./watchdog.ts";

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly ranMs: number;
}

export interface WatchedChild {
  /** Resolves when program and watchdog have exited; never rejects. */
  readonly ended: Promise<Ended>;
  readonly signal: (name: "TERM" | "KILL" | "STOP" | "CONT") => void;
  /** TERM, then KILL after the component's grace; resolves when it has exited. */
  readonly stop: () => Promise<Ended>;
}

/** Total: a program that cannot start, because its log or a descriptor cannot be had, counts as exited at once. */
export function startWatched(component: Component): WatchedChild {
  try {
    return watch(startShell(component), component);
  } catch {
    const ended = Promise.resolve<Ended>({ code: 127, signal: null, ranMs: 0 });
    return { ended, signal: () => {}, stop: () => ended };
  }
}

/** In a session of its own, so that a Ctrl-C in the terminal reaches only us and the order of stopping is ours. */
function startShell(component: Component): ChildProcess {
  const argv = watchdogArgv(component.program, component.args, component.orphanGraceMs);
  const log = openSync(component.logFile, "a", 0o600);
  try {
    return spawn("/bin/sh", [...argv], {
      cwd: component.cwd,
      env: { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", HOME: component.cwd, ...component.env },
      stdio: ["ignore", log, log, "pipe"],
      detached: true,
    });
  } finally {
    closeSync(log);
  }
}

function watch(child: ChildProcess, component: Component): WatchedChild {
  const startedAt = performance.now();
  // Absent where there were no descriptors left for it.
  const orders = child.stdio?.[3] as Writable | undefined;
  // The shell may be gone before an order is written: that is what was wanted.
  orders?.on("error", () => {});
  const ended = whenEnded(child).then(({ code, signal }): Ended => {
    killGroup(child.pid);
    orders?.destroy();
    return { code, signal, ranMs: performance.now() - startedAt };
  });
  const signal: WatchedChild["signal"] = (name) => {
    if (orders?.writable) orders.write(`${name}\n`);
  };
  const stop = async () => {
    signal("TERM");
    const timer = setTimeout(() => signal("KILL"), component.graceMs);
    const result = await ended;
    clearTimeout(timer);
    return result;
  };
  return { ended, signal, stop };
}

async function whenEnded(
  child: ChildProcess,
): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  try {
    const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
    return { code, signal };
  } catch {
    // The shell itself could not be started; reported like a program that ended at once.
    return { code: 127, signal: null };
  }
}

/** When the watchdog itself was killed its program may live on; the group is ours, so nothing of it may stay. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Nothing left of the group: the normal case.
  }
}
