/** The files in an engine's run directory, and how to read them when a crash left any of them half done. */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { writeFileAtomic, writeFileAtomicSync } from "../../../src/util/atomic-file.ts";
import { readPlainFile } from "../../../src/util/plain-file.ts";
import type { ExitRecord } from "../instance.ts";

/** Pid and start time, as the shim wrote them. */
export interface ProcessMark {
  readonly pid: number;
  readonly startTime: string;
}

export interface RunFiles {
  /** The shim, leader of the engine's session; written before the engine starts. */
  readonly session?: ProcessMark;
  readonly main?: ProcessMark;
  readonly exit?: ExitRecord;
  /** The program in a terminal, which the main process holds. */
  readonly inner?: ProcessMark;
}

/** In the engine's folder, mode 0600: where `metalbridge attach` reaches the program's terminal. */
export const TERMINAL_SOCKET = "terminal.sock";
/** What the terminal's process is to run, until it has read it. */
export const TERMINAL_LAUNCH = "terminal.json";
/** Maximum size of one file: a pid, an exit code, or a launch with all its arguments. */
const MAX_BYTES = 4 << 20;
const RUN_FILES = [
  "main",
  "alive",
  "pid",
  "pid.tmp",
  "session",
  "session.tmp",
  "exit",
  "exit.tmp",
  "program",
  "program.tmp",
  TERMINAL_SOCKET,
  TERMINAL_LAUNCH,
];

/**
 * Set in the environment of everything an engine starts; distinguishes leftovers from unrelated processes.
 */
export const MARK_VARIABLE = "METALBRIDGE_ENGINE_DIR";

/** Its value is plain ASCII without spaces: `ps` of macOS prints other letters in an encoding of its own. */
export function engineMark(dir: string): string {
  return `${MARK_VARIABLE}=${runMarkOf(dir)}`;
}

export function runMarkOf(dir: string): string {
  return encodeURI(dir);
}

/** What is there, and no key for what is not: callers keep what an earlier reading found. Throws when a file cannot be read. */
export function readRunFiles(dir: string): RunFiles {
  const session = parseMark(readText(join(dir, "session")));
  const main = parseMark(readText(join(dir, "pid")));
  const exit = parseExit(readText(join(dir, "exit")));
  return {
    ...(session === undefined ? {} : { session }),
    ...(main === undefined ? {} : { main }),
    ...(exit === undefined ? {} : { exit }),
  };
}

/** Only a terminal writes it. */
export function readInner(dir: string): Pick<RunFiles, "inner"> {
  const inner = parseMark(readText(join(dir, "program")));
  return inner === undefined ? {} : { inner };
}

/** Writes the marks as the shim does; answers false where they are there. */
export function restoreMarks(dir: string, { session, main }: RunFiles): boolean {
  const marks = [
    ["session", session],
    ["pid", main],
  ] as const;
  let isChanged = false;
  for (const [name, mark] of marks) {
    const path = join(dir, name);
    if (mark === undefined || existsSync(path)) continue;
    isChanged = true;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    writeFileSync(`${path}.tmp`, `${mark.pid} ${mark.startTime}\n`);
    renameSync(`${path}.tmp`, path);
  }
  return isChanged;
}

/** What `engine.json` holds, or undefined where there is none or it is not JSON. */
export function readEngineRecord(dir: string): unknown {
  const text = readText(join(dir, "engine.json"));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** On disk before anything starts: file and directory are synced, so that a power cut cannot forget a reservation. */
export function writeEngineRecord(dir: string, record: object): void {
  writeFileAtomicSync(join(dir, "engine.json"), `${JSON.stringify(record, undefined, 2)}\n`);
}

/** The same while an engine runs: what only the next agent needs holds up nothing else of this one. */
export function rewriteEngineRecord(dir: string, record: object): Promise<void> {
  return writeFileAtomic(join(dir, "engine.json"), `${JSON.stringify(record, undefined, 2)}\n`);
}

/** Takes away what an earlier run left, the FIFOs first; log and engine.json stay. */
export function clearRunFiles(dir: string): void {
  for (const name of RUN_FILES) rmSync(join(dir, name), { force: true });
}

export function hasEngineFile(dir: string): boolean {
  return existsSync(join(dir, "engine.json"));
}

/** Removes the run and its reservation; the log and the replica's history stay. */
export function removeEngineFile(dir: string): void {
  clearRunFiles(dir);
  rmSync(join(dir, "engine.json"), { force: true });
}

/** A line counts only when it is complete: the shim writes `session` without a rename. */
function parseMark(text: string | undefined): ProcessMark | undefined {
  const match = /^(\d+) (.*)\n$/.exec(text ?? "");
  const pid = Number(match?.[1]);
  if (match === null || !Number.isSafeInteger(pid) || pid < 2) return undefined;
  return { pid, startTime: (match[2] ?? "").trim().replace(/\s+/g, " ") };
}

/** A shell says 128 + number for a signal. */
function parseExit(text: string | undefined): ExitRecord | undefined {
  const match = /^(\d{1,3})\n$/.exec(text ?? "");
  if (match === null) return undefined;
  const code = Number(match[1]);
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return signal === undefined ? { code } : { signal };
}

/** Only "there is none" is an answer; a file that cannot be read must not look like an engine that never was. */
function readText(path: string): string | undefined {
  try {
    return readPlainFile(path, { maxBytes: MAX_BYTES });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
