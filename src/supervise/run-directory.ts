/** The files in a run directory. Readers tolerate files that a crash left incomplete. */
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { writeFileAtomic, writeFileAtomicSync } from "../util/atomic-file.ts";
import { defined } from "../util/defined.ts";
import { readPlainFile } from "../util/plain-file.ts";
import type { ProcessExit } from "./supervised.ts";

/** Pid and start time, in the format of the shim. */
export interface ProcessMark {
  readonly pid: number;
  readonly startTime: string;
}

export interface RunFiles {
  /** The shim, leader of the session; written before the program starts. */
  readonly session?: ProcessMark;
  readonly main?: ProcessMark;
  readonly exit?: ProcessExit;
}

/** Socket of a program in a terminal, mode 0600, to which `metalbridge attach` connects. */
export const TERMINAL_SOCKET = "terminal.sock";
/** The command of the terminal's process, which removes the file after reading it. */
export const TERMINAL_LAUNCH = "terminal.json";
/** Maximum size of one file: a pid, an exit code, or a record with all arguments. */
const MAX_BYTES = 4 << 20;
const MARKS = ["pid", "session", "exit", "program"];
const RUN_FILES = [
  ...["main", "alive", TERMINAL_SOCKET, TERMINAL_LAUNCH],
  ...MARKS.flatMap((name) => [name, `${name}.tmp`]),
];

/** Set in the environment of the program and of all that it starts, to distinguish leftovers from unrelated processes. */
export const MARK_VARIABLE = "METALBRIDGE_RUN_DIR";

/** The value is plain ASCII without spaces: `ps` of macOS prints other characters in its own encoding. */
export function runMark(dir: string): string {
  return `${MARK_VARIABLE}=${runMarkOf(dir)}`;
}

export function runMarkOf(dir: string): string {
  return encodeURI(dir);
}

/** A missing file has no key in the result, so that callers can keep an earlier value. Throws if a file cannot be read. */
export function readRunFiles(dir: string): RunFiles {
  return defined({
    session: parseMark(readText(join(dir, "session"))),
    main: parseMark(readText(join(dir, "pid"))),
    exit: parseExit(readText(join(dir, "exit"))),
  });
}

/** The program that the main process runs, for example in a terminal. */
export function readInner(dir: string): ProcessMark | undefined {
  return parseMark(readText(join(dir, "program")));
}

/** Writes the missing marks in the format of the shim; false if none was missing. */
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

/** The content of `engine.json`; undefined if there is none or it is not JSON. */
export function readRecord(dir: string): unknown {
  const text = readText(join(dir, "engine.json"));
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Called before a process starts. File and directory are synced, so that a power failure does not lose the record. */
export function writeRecord(dir: string, record: object): void {
  writeFileAtomicSync(join(dir, "engine.json"), `${JSON.stringify(record, undefined, 2)}\n`);
}

/** The same while the process runs, without blocking: only the next supervisor needs the file. */
export function rewriteRecord(dir: string, record: object): Promise<void> {
  return writeFileAtomic(join(dir, "engine.json"), `${JSON.stringify(record, undefined, 2)}\n`);
}

/** Removes the files of an earlier run, the FIFOs first; keeps log and engine.json. */
export function clearRunFiles(dir: string): void {
  for (const name of RUN_FILES) rmSync(join(dir, name), { force: true });
}

export function hasRecord(dir: string): boolean {
  return existsSync(join(dir, "engine.json"));
}

/** Removes the run and its reservation; keeps the log and the replica's history. */
export function removeRun(dir: string): void {
  clearRunFiles(dir);
  rmSync(join(dir, "engine.json"), { force: true });
}

/** Undefined for an incomplete line: the shim writes `session` without a rename. */
function parseMark(text: string | undefined): ProcessMark | undefined {
  const match = /^(\d+) (.*)\n$/.exec(text ?? "");
  const pid = Number(match?.[1]);
  if (match === null || !Number.isSafeInteger(pid) || pid < 2) return undefined;
  return { pid, startTime: (match[2] ?? "").trim().replace(/\s+/g, " ") };
}

/** A shell reports a signal as 128 + number. */
function parseExit(text: string | undefined): ProcessExit | undefined {
  const match = /^(\d{1,3})\n$/.exec(text ?? "");
  if (match === null) return undefined;
  const code = Number(match[1]);
  const signal = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
  return signal === undefined ? { code } : { signal };
}

/** Undefined only if there is no file: an unreadable file must not look like a process that was never started. */
export function readText(path: string): string | undefined {
  try {
    return readPlainFile(path, { maxBytes: MAX_BYTES });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
