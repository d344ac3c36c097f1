/** One run of one program under the watchdog. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import type { Writable } from "node:stream";
import type { Component } from "../components/component.ts";

/**
 * A few lines of shell between us and a program, so that it never outlives us, not even a SIGKILL of us.
 * Started as `sh -c SCRIPT sh <graceMs/200> program args…` with descriptor 3 held open by the parent alone.
 * A line on 3 is a signal for the program; its end means the parent is gone: TERM, grace, KILL.
 * The program gets no copy of 3, and its exit status becomes the shell's own.
 */
const WATCHDOG = `
steps=$1
shift
"$@" 3<&- &
child=$!
(
  exec <&3 3<&-
  while read -r signal; do kill -s "$signal" "$child" 2>/dev/null; done
  kill -s TERM "$child" 2>/dev/null || exit 0
  while [ "$steps" -gt 0 ] && kill -s 0 "$child" 2>/dev/null; do sleep 0.2; steps=$((steps - 1)); done
  kill -s KILL "$child" 2>/dev/null
) &
reader=$!
exec 3<&-
wait "$child"
status=$?
kill -s KILL "$reader" 2>/dev/null
exit "$status"
`;

const STEP_MS = 200;

export interface ChildExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly ranMs: number;
}

export interface WatchedChild {
  /** Resolves when program and watchdog have exited; never rejects. */
  readonly ended: Promise<ChildExit>;
  readonly signal: (name: "TERM" | "KILL" | "STOP" | "CONT") => void;
  /** TERM, then KILL after the component's grace; resolves when it has exited. */
  readonly stop: () => Promise<ChildExit>;
}

/** Total: a program that cannot start, because its log or a descriptor cannot be had, counts as exited at once. */
export function startWatched(component: Component): WatchedChild {
  try {
    return watch(startShell(component), component);
  } catch {
    const ended = Promise.resolve<ChildExit>({ code: 127, signal: null, ranMs: 0 });
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

/** Arguments of /bin/sh. */
function watchdogArgv(program: string, args: readonly string[], graceMs: number): readonly string[] {
  const steps = Math.max(1, Math.ceil(graceMs / STEP_MS));
  return ["-c", WATCHDOG, "sh", String(steps), program, ...args];
}

function watch(child: ChildProcess, component: Component): WatchedChild {
  const startedAt = performance.now();
  // Absent where there were no descriptors left for it.
  const orders = child.stdio?.[3] as Writable | undefined;
  // The shell may be gone before an order is written: that is what was wanted.
  orders?.on("error", () => {});
  const ended = whenEnded(child).then(({ code, signal }): ChildExit => {
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
