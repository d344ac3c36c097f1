/** The engines that really run, by /proc: found by the mark in their environment, whatever any state folder says. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { MARK_VARIABLE } from "../../../agent/instances/process/run-directory.ts";
import type { Recorder } from "./recorder.ts";

/** A main process of an engine: a marked process that is not its shim and not a child of an engine. */
export interface SeenEngine {
  readonly pid: number;
  /** The state folder's run directory: its last part is the replica's uid. */
  readonly dir: string;
  readonly uid: string;
}

export interface EngineWatch {
  readonly engines: () => readonly (SeenEngine & { readonly host: string })[];
  /** Shims by the run directory that they keep. */
  readonly shims: () => ReadonlyMap<string, number>;
  readonly look: () => void;
  readonly stop: () => void;
}

const EVERY_MS = 250;

/** `hostOf` returns the host whose state folder holds a run directory; engines of other runs have none. */
export function watchEngines(recorder: Recorder, hostOf: (dir: string) => string | undefined): EngineWatch {
  const known = new Map<string, Known>();
  let engines = new Map<number, SeenEngine & { host: string }>();
  let shims = new Map<string, number>();
  const look = (): void => {
    const marked = findMarked(known).flatMap((process) => {
      const host = hostOf(process.dir);
      return host === undefined ? [] : [{ ...process, host, uid: process.dir.split("/").at(-1) ?? "" }];
    });
    shims = new Map(marked.filter(({ isShim }) => isShim).map(({ dir, pid }) => [dir, pid]));
    const found = new Map(marked.filter(({ isShim }) => !isShim).map((engine) => [engine.pid, engine]));
    // A scan takes a while: an engine that exited during it did not run beside those read after it.
    for (const { pid } of doubled([...found.values()]))
      if (startOf(String(pid)) === undefined) found.delete(pid);
    const at = recorder.now();
    for (const engine of engines.values()) if (!found.has(engine.pid)) note(recorder, "gone", engine, at);
    for (const engine of found.values()) if (!engines.has(engine.pid)) note(recorder, "appeared", engine, at);
    engines = found;
  };
  const timer = setInterval(look, EVERY_MS);
  return {
    engines: () => [...engines.values()],
    shims: () => shims,
    look,
    stop: () => clearInterval(timer),
  };
}

function note(
  recorder: Recorder,
  change: "appeared" | "gone",
  { host, uid, pid }: SeenEngine & { host: string },
  at: number,
): void {
  recorder.note({ type: "engine", change, host, uid, pid }, at);
}

function doubled(engines: readonly SeenEngine[]): readonly SeenEngine[] {
  return engines.filter(({ uid }) => engines.filter((other) => other.uid === uid).length > 1);
}

interface MarkedProcess {
  readonly pid: number;
  readonly dir: string;
  readonly isShim: boolean;
}

/** What is known of one pid with its start time. */
type Known = MarkedProcess | { readonly unmarkedLooks: number };

/** A process that had no mark so often will never have one: between fork and exec it has its parent's environment. */
const LOOKS = 8;

function findMarked(known: Map<string, Known>): readonly MarkedProcess[] {
  const marked: MarkedProcess[] = [];
  const seen = new Set<string>();
  for (const entry of readdirSync("/proc")) {
    const start = /^\d+$/.test(entry) ? startOf(entry) : undefined;
    if (start === undefined) continue;
    const key = `${entry}:${start}`;
    seen.add(key);
    const process = lookAt(entry, known.get(key));
    if (process !== undefined) known.set(key, process);
    if (process !== undefined && "dir" in process) marked.push(process);
  }
  for (const key of known.keys()) if (!seen.has(key)) known.delete(key);
  return marked;
}

/** Undefined for a process that has exited, a zombie included. */
function startOf(pid: string): string | undefined {
  const fields = statOf(pid);
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

function lookAt(pid: string, before: Known | undefined): Known | undefined {
  if (before !== undefined && ("dir" in before || before.unmarkedLooks >= LOOKS)) return before;
  const environment = text(`/proc/${pid}/environ`).split("\0");
  const mark = environment.find((entry) => entry.startsWith(`${MARK_VARIABLE}=`));
  if (mark === undefined) return { unmarkedLooks: (before?.unmarkedLooks ?? 0) + 1 };
  const dir = decodeURI(mark.slice(MARK_VARIABLE.length + 1));
  const argv = text(`/proc/${pid}/cmdline`).split("\0");
  const isShell = /\/(ba|da|z)?sh$/.test(program(pid));
  // The shim leads its session; a copy of it that does not is the engine before its exec.
  if (isShell && argv[1] === `${dir}/shim` && statOf(pid)[3] === pid) {
    return { pid: Number(pid), dir, isShim: true };
  }
  return !isShell && argv.includes("--port") ? { pid: Number(pid), dir, isShim: false } : undefined;
}

/** From the state on: state, parent, group, session. */
function statOf(pid: string): readonly string[] {
  const stat = text(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

function program(pid: string): string {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return "";
  }
}

/** Empty for what ended while we looked. */
function text(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
