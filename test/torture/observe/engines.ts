/** The engines that really run, by /proc: found by the mark in their environment, whatever any state folder says. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import path from "node:path";
import { MARK_VARIABLE } from "../../../src/supervise/run-directory.ts";
import type { RealNode } from "../../bed/node/node.ts";
import type { TestHost } from "../bed/host.ts";
import { podEngines } from "./pod-engines.ts";
import type { Recorder } from "./recorder.ts";

/** A main process of an engine: a marked process that is not its shim and not a child of an engine. */
export interface SeenEngine {
  readonly pid: number;
  /** Of the process: its own, or that of the daemon that several replicas share. */
  readonly dir: string;
  /** UID of the replica or pod. */
  readonly uid: string;
  /** Pid of the daemon's process for the replica's model, where it has one. */
  readonly runner?: number;
}

type OnHost<T> = T & { readonly host: string };

export interface EngineWatch {
  /** One for each replica, and for each pod, whose host is its node. */
  readonly engines: () => readonly OnHost<SeenEngine>[];
  /** Shims by the run directory that they keep. */
  readonly shims: () => ReadonlyMap<string, number>;
  /** Pid of the newest gate, by host. */
  readonly gates: () => ReadonlyMap<string, number>;
  /** Every marked process in words, for what must not be left. */
  readonly processes: () => readonly string[];
  readonly look: () => void;
  readonly stop: () => void;
}

const EVERY_MS = 250;

/** Engines of other runs are on none of the hosts. */
export function watchEngines(
  recorder: Recorder,
  hosts: readonly Pick<TestHost, "name" | "stateDir">[],
  nodes: readonly Pick<RealNode, "name" | "folder">[],
): EngineWatch {
  const known = new Map<string, Known>();
  let engines = new Map<string, OnHost<SeenEngine>>();
  let marked: readonly OnHost<MarkedProcess>[] = [];
  let gates = new Map<string, number>();
  const look = (): void => {
    marked = findMarked(known).flatMap((process) => onHost(process, hosts));
    const shared = hosts.flatMap((host) => sharedEngines(host, marked));
    const all = [...ownEngines(marked), ...shared, ...podEngines(nodes)];
    const found = new Map(all.map((engine) => [`${engine.uid}/${engine.pid}`, engine]));
    // A scan takes a while: an engine that exited during it did not run beside those read after it.
    for (const { uid, pid } of doubled(all))
      if (startOf(String(pid)) === undefined) found.delete(`${uid}/${pid}`);
    const at = recorder.now();
    for (const engine of without(engines, found)) note(recorder, "gone", engine, at);
    for (const engine of without(found, engines)) note(recorder, "appeared", engine, at);
    engines = found;
    const newest = newestGates(marked);
    const started = [...newest].filter(([host, pid]) => gates.get(host) !== pid);
    for (const [host] of started) recorder.note({ type: "part", part: "gate", host, change: "started" }, at);
    gates = newest;
  };
  const timer = setInterval(look, EVERY_MS);
  return {
    engines: () => [...engines.values()],
    shims: () => new Map(marked.filter(({ kind }) => kind === "shim").map(({ dir, pid }) => [dir, pid])),
    gates: () => gates,
    processes: () => marked.map(({ kind, pid, host, dir }) => `${kind} ${pid} on ${host} of ${dir}`),
    look,
    stop: () => clearInterval(timer),
  };
}

function without<T>(some: ReadonlyMap<string, T>, others: ReadonlyMap<string, T>): readonly T[] {
  return [...some].filter(([key]) => !others.has(key)).map(([, one]) => one);
}

function onHost(
  process: MarkedProcess,
  hosts: readonly Pick<TestHost, "name" | "stateDir">[],
): readonly OnHost<MarkedProcess>[] {
  const host = hosts.find(({ stateDir }) => process.dir.startsWith(`${stateDir}/`))?.name;
  return host === undefined ? [] : [{ ...process, host }];
}

function ownEngines(marked: readonly OnHost<MarkedProcess>[]): readonly OnHost<SeenEngine>[] {
  const own = marked.filter(({ kind }) => kind === "engine");
  return own.map(({ pid, dir, host }) => ({ pid, dir, host, uid: path.basename(dir) }));
}

/** Replicas whose daemon lives: what refers to it stands in their records. */
function sharedEngines(
  { name: host, stateDir }: Pick<TestHost, "name" | "stateDir">,
  marked: readonly OnHost<MarkedProcess>[],
): readonly OnHost<SeenEngine>[] {
  const here = marked.filter((process) => process.host === host);
  if (!here.some(({ kind }) => kind === "daemon")) return [];
  return namesIn(path.join(stateDir, "engines")).flatMap((uid) => {
    const record = parsed(text(path.join(stateDir, "engines", uid, "engine.json")));
    const dir = path.join(stateDir, "daemons", String(record.daemon));
    const daemon = here.find((process) => process.kind === "daemon" && process.dir === dir);
    if (daemon === undefined) return [];
    const weights = weightsOf(stateDir, String(record.model));
    const runner = here.find((process) => process.dir === dir && process.weights === weights)?.pid;
    return [{ pid: daemon.pid, dir, host, uid, runner }];
  });
}

/** The blob that a model of ours in Ollama has its weights from. */
function weightsOf(stateDir: string, model: string): string | undefined {
  const manifests = path.join(stateDir, "ollama", "models", "manifests", "registry.ollama.ai", "library");
  const { layers = [] } = parsed(text(path.join(manifests, ...model.split(":"))));
  const own = layers.find(({ mediaType }) => mediaType === "application/vnd.ollama.image.model");
  return own?.digest.replace(":", "-");
}

interface Parsed {
  readonly daemon?: string;
  readonly model?: string;
  readonly layers?: readonly { readonly mediaType: string; readonly digest: string }[];
}

/** Nothing of a file that is being written, or gone. */
function parsed(json: string): Parsed {
  try {
    return JSON.parse(json);
  } catch {
    return {};
  }
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function newestGates(marked: readonly OnHost<MarkedProcess>[]): Map<string, number> {
  const all = marked.filter(({ kind }) => kind === "gate");
  const inOrder = all.sort((one, other) => numberOf(one) - numberOf(other));
  return new Map(inOrder.map(({ host, pid }) => [host, pid]));
}

function numberOf({ dir }: MarkedProcess): number {
  return Number(path.basename(dir));
}

function note(
  recorder: Recorder,
  change: "appeared" | "gone",
  { host, uid, pid }: OnHost<SeenEngine>,
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
  readonly kind: "shim" | "engine" | "daemon" | "runner" | "gate";
  /** Name of the blob that a runner has loaded. */
  readonly weights?: string;
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
    const process = inspect(entry, known.get(key));
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

function inspect(pid: string, before: Known | undefined): Known | undefined {
  if (before !== undefined && ("dir" in before || before.unmarkedLooks >= LOOKS)) return before;
  const environment = text(`/proc/${pid}/environ`).split("\0");
  const mark = environment.find((entry) => entry.startsWith(`${MARK_VARIABLE}=`));
  if (mark === undefined) return { unmarkedLooks: (before?.unmarkedLooks ?? 0) + 1 };
  const dir = decodeURI(mark.slice(MARK_VARIABLE.length + 1));
  // A gateway's Envoy is no engine.
  if (path.basename(path.dirname(dir)) === "processes") return undefined;
  const argv = text(`/proc/${pid}/cmdline`).split("\0");
  const isShell = /\/(ba|da|z)?sh$/.test(program(pid));
  // The shim leads its session; a copy of it that does not is the engine before its exec.
  if (isShell && argv[1] === `${dir}/shim` && statOf(pid)[3] === pid) {
    return { pid: Number(pid), dir, kind: "shim" };
  }
  return isShell ? undefined : kindOf(Number(pid), dir, argv);
}

/** By the folder that its mark names, and its arguments; undefined for what only helps them. */
function kindOf(pid: number, dir: string, argv: readonly string[]): MarkedProcess | undefined {
  switch (path.basename(path.dirname(dir))) {
    case "engines":
      return argv.includes("--port") ? { pid, dir, kind: "engine" } : undefined;
    case "gate":
      return { pid, dir, kind: "gate" };
    case "daemons":
      if (argv[1] === "serve") return { pid, dir, kind: "daemon" };
      if (argv[1] !== "runner") return undefined;
      return { pid, dir, kind: "runner", weights: path.basename(argv[argv.indexOf("--model") + 1] ?? "") };
    default:
      return undefined;
  }
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
