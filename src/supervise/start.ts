/** Starts a process that outlives this one, which may crash after any of the steps. */

import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { MetalbridgeError } from "../api/errors.ts";
import { START_LINE } from "../engines/contract/last-run.ts";
import { truncate } from "../util/text.ts";
import { makeFifos, openBothEnds } from "./fifo.ts";
import { clearRunFiles, MARK_VARIABLE, readText, runMarkOf, writeRecord } from "./run-directory.ts";
import { SHIM_SCRIPT } from "./shim-script.ts";
import type { OnChange, ProcessCommand, SupervisedProcess } from "./supervised.ts";
import { type WatchPorts, watchProcess } from "./watch.ts";

/** Limit of an error message, because it quotes a refused argument in full. */
const MAX_REASON = 300;

/**
 * Refuses while a process of an earlier start in `dir` may be alive. The order of the steps makes a crash harmless: old files
 * are removed first, then the record is written, then the FIFOs, and only a held FIFO or `session` means that there may be a
 * process. `onStep` reports each completed step.
 */
export async function startProcess(
  dir: string,
  command: ProcessCommand,
  ports: WatchPorts,
  onChange: OnChange,
  onStep: (step: StartStep) => void = () => {},
): Promise<SupervisedProcess> {
  await refuseIfOccupied(dir, ports);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  onStep("directory");
  clearRunFiles(dir);
  if (command.record !== undefined) writeRecord(dir, command.record);
  const prepared = { ...command, ...command.prepare?.() };
  writeShim(dir);
  onStep("record");
  await makeBothFifos(dir);
  onStep("fifos");
  await spawnShim(dir, prepared, ports.clock.nowMs(), onStep);
  const watched = await watchProcess(dir, ports, onChange);
  if (watched !== undefined) return watched;
  throw new MetalbridgeError("EngineStartFailed", `the shim ended before it started anything in ${dir}`);
}

export type StartStep = "directory" | "record" | "fifos" | "spawned";

async function refuseIfOccupied(dir: string, ports: WatchPorts): Promise<void> {
  const earlier = await watchProcess(dir, ports, () => {});
  earlier?.close();
  if (earlier === undefined || earlier.state().at === "gone") return;
  throw new MetalbridgeError("EngineStillRunning", `a process in ${dir} is ${earlier.state().at}`);
}

/** Tries twice, because the `mkfifo` of an agent that was just killed may still have been running. */
async function makeBothFifos(dir: string): Promise<void> {
  const paths = [join(dir, "main"), join(dir, "alive")];
  try {
    await makeFifos(paths);
  } catch {
    clearRunFiles(dir);
    await makeFifos(paths);
  }
}

/** Not written again if it is the same: a disk may be full by now. */
function writeShim(dir: string): void {
  if (readText(join(dir, "shim")) === SHIM_SCRIPT) return;
  writeFileSync(join(dir, "shim.tmp"), SHIM_SCRIPT, { mode: 0o600 });
  renameSync(join(dir, "shim.tmp"), join(dir, "shim"));
}

/** This process closes its copies of the write ends afterwards: from then on a held FIFO means that shim or process is alive. */
async function spawnShim(
  dir: string,
  command: ProcessCommand,
  now: number,
  onStep: (step: StartStep) => void,
): Promise<void> {
  const open: number[] = [];
  try {
    const main = openBothEnds(join(dir, "main"));
    open.push(main.reader, main.writer);
    const alive = openBothEnds(join(dir, "alive"));
    open.push(alive.reader, alive.writer);
    const log = openSync(join(dir, "log"), "a", 0o600);
    open.push(log);
    logStart(log, now);
    const none = "ignore";
    const channel = command.onChannel === undefined ? none : "ipc";
    const stdio: StdioOptions = [none, log, log, none, none, none, none, channel, main.writer, alive.writer];
    await spawned(
      dir,
      () =>
        spawn("/bin/sh", [join(dir, "shim"), dir, ...command.argv], {
          cwd: command.cwd ?? dir,
          env: { ...command.env, [MARK_VARIABLE]: runMarkOf(dir) },
          detached: true,
          stdio,
        }),
      command.onChannel,
    );
    onStep("spawned");
  } finally {
    for (const fd of open) closeSync(fd);
  }
}

/** A disk without room for a line does not keep a process from starting. */
function logStart(log: number, now: number): void {
  try {
    writeSync(log, `${START_LINE} ${new Date(now).toISOString()}\n`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
  }
}

/** Some failures are thrown (arguments too long, a NUL in one), others are reported as an event (no such folder, no descriptors). */
async function spawned(
  dir: string,
  start: () => ChildProcess,
  onChannel: ProcessCommand["onChannel"] = () => {},
): Promise<void> {
  try {
    const shim = start();
    shim.unref();
    if (shim.pid === undefined) throw await new Promise((resolve) => shim.once("error", resolve));
    onChannel(shim);
  } catch (cause) {
    const why = cause instanceof Error ? truncate(cause.message, MAX_REASON) : String(cause);
    throw new MetalbridgeError("EngineStartFailed", `cannot start a process in ${dir}: ${why}`, undefined, {
      cause,
    });
  }
}
