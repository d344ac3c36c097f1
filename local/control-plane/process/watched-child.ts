/** One run of one program under the watchdog. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import type { Writable } from "node:stream";
import type { Component } from "../components/component.ts";

/**
 * A shell script between this process and the program, so that the program never outlives this process, even after SIGKILL.
 * It is started as `sh -c SCRIPT sh <graceMs/200> program args…`, and only this process holds the other end of descriptor 3.
 * A line on descriptor 3 is a signal for the program. Its end means that this process has exited: TERM, grace, KILL.
 * The program gets no copy of descriptor 3. The shell exits with the exit status of the program.
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
  /** Sends TERM, and KILL after the grace period. Resolves after the exit. */
  readonly stop: () => Promise<ChildExit>;
}

/** Never throws: a program that cannot be started, for example without a log, counts as exited at once. */
export function startWatched(component: Component): WatchedChild {
  try {
    return watch(startShell(component), component);
  } catch {
    const ended = Promise.resolve<ChildExit>({ code: 127, signal: null, ranMs: 0 });
    return { ended, signal: () => {}, stop: () => ended };
  }
}

/** Starts a separate session, so that Ctrl-C reaches only this process, which decides the order of stopping. */
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
  // Absent if there was no free descriptor.
  const signals = child.stdio?.[3] as Writable | undefined;
  // The shell may exit before a signal is written, which is no failure.
  signals?.on("error", () => {});
  const ended = waitForExit(child).then(({ code, signal }): ChildExit => {
    killGroup(child.pid);
    signals?.destroy();
    return { code, signal, ranMs: performance.now() - startedAt };
  });
  const signal: WatchedChild["signal"] = (name) => {
    if (signals?.writable) signals.write(`${name}\n`);
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

async function waitForExit(
  child: ChildProcess,
): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
  try {
    const [code, signal] = (await once(child, "exit")) as [number | null, NodeJS.Signals | null];
    return { code, signal };
  } catch {
    // A shell that cannot be started is reported like a program that exits at once.
    return { code: 127, signal: null };
  }
}

/** Kills the whole process group, because the program may outlive a killed watchdog. */
function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Usually, the whole group has exited.
  }
}
