/** One run of an engine, by phase. Only this module writes it: each transition replaces the value. */

import type { Moment } from "../../../src/util/moment.ts";
import type { Instance } from "../../instances/instance.ts";
import type { Footprint, Launch, ReadSecrets, RunRecord, Slice, Stop } from "../evidence/observed.ts";
import type { Quiet } from "../evidence/quiet.ts";
import { type EngineFile, recordOf, storedStopOf } from "./engine-record.ts";
import {
  forgetAnswers,
  forgetReadings,
  type LogScan,
  NO_WORKLOAD,
  type Probing,
  UNPROBED,
  type Workload,
} from "./probing.ts";

export type EngineState =
  | { readonly at: "none"; readonly launch: Launch }
  /** The run directory cannot be read, so it is unknown whether an engine runs. */
  | { readonly at: "unreadable"; readonly why: string }
  | EngineRun;

/** From the start or adoption of an engine until none of its processes is left. */
export type EngineRun = StartingRun | ServingRun | DrainingRun | EndedRun;
/** The engine's process may still be running. */
export type LiveRun = Exclude<EngineRun, EndedRun>;

interface Launched {
  readonly instance: Instance;
  readonly file: EngineFile;
  /** The file on this process's clock, converted once: a wall clock that is set later changes no deadline. */
  readonly record: RunRecord;
  readonly apiKey: string | undefined;
}

/** The engine has not been Ready yet. */
interface StartingRun extends Launched {
  readonly at: "starting";
  readonly probing: Probing;
  readonly secrets: ReadSecrets;
  /** Since when the host's address differs from the engine's. */
  readonly addressMismatchSince?: number;
}

interface Served {
  readonly workload: Workload;
  readonly log: LogScan;
  readonly footprint?: Footprint;
}

export interface ServingRun extends Omit<StartingRun, "at">, Served {
  readonly at: "serving";
}

/** The engine must stop, or is being killed. */
interface DrainingRun extends Omit<StartingRun, "at">, Served {
  readonly at: "draining";
  readonly quiet: Quiet;
  /** When the engine was asked to stop, on the monotonic clock. */
  readonly stopRequestedAt?: number;
}

/** The engine has exited; a process that it started may still be running. */
interface EndedRun extends Launched {
  readonly at: "ended";
  readonly footprint?: Footprint;
  readonly stopRequestedAt?: number;
}

/** The part of a replica's state that this module writes. */
interface EngineHolder {
  readonly engine: EngineState;
  /** Exposure of the endpoint since the run began; the slice's state is read when it is needed. */
  readonly slice: Omit<Slice, "state">;
}

export const NO_ENGINE: EngineState = { at: "none", launch: { at: "untried" } };
export const NEVER_ANNOUNCED: EngineHolder["slice"] = { wasExposed: false, mayArrive: false };

export function runOf({ engine }: Pick<EngineHolder, "engine">): EngineRun | undefined {
  return engine.at === "none" || engine.at === "unreadable" ? undefined : engine;
}

/** Undefined once the engine has exited, or if the current run is not that of `instance`. */
export function liveRunOf(holder: Pick<EngineHolder, "engine">, instance?: Instance): LiveRun | undefined {
  const run = runOf(holder);
  if (run === undefined || run.at === "ended") return undefined;
  return instance === undefined || run.instance === instance ? run : undefined;
}

/** A live run that was Ready; undefined for any other. */
export function servedOf(run: EngineRun | undefined): ServingRun | DrainingRun | undefined {
  return run?.at === "serving" || (run?.at === "draining" && run.file.readyAtMs !== undefined)
    ? run
    : undefined;
}

/** The last measurement. */
export function footprintOf(run: EngineRun | undefined): Footprint | undefined {
  return run === undefined || run.at === "starting" ? undefined : run.footprint;
}

/** A run about which only the record is known so far. */
export function newEngineRun(
  instance: Instance,
  file: EngineFile,
  apiKey: string | undefined,
  moment: Moment,
): EngineRun {
  // A new engine has just received its Secrets; for an adopted one the agent reads them at the next probe.
  const secrets = { at: file.readyAtMs === undefined ? moment.monotonicMs : Number.NEGATIVE_INFINITY };
  const record = recordOf(file, moment);
  return inPhase({ at: "starting", instance, file, record, apiKey, probing: UNPROBED, secrets });
}

/** An engine was started or adopted. `mayArrive`: an announcement of its endpoint may still reach the API server. */
export function beginRun(holder: EngineHolder, run: EngineRun, mayArrive: boolean): void {
  write(holder, run);
  setSlice(holder, { ...NEVER_ANNOUNCED, mayArrive });
}

/** No process and no file of the run is left. */
export function endRun(holder: EngineHolder): void {
  write(holder, NO_ENGINE);
  setSlice(holder, NEVER_ANNOUNCED);
}

/** No engine is known to run: a start has failed, or the run directory is about to be read again. */
export function noteNoRun(holder: EngineHolder, launch: Launch = { at: "untried" }): void {
  write(holder, { at: "none", launch });
}

export function noteUnreadableRun(holder: EngineHolder, why: string): void {
  write(holder, { at: "unreadable", why });
}

export function setSlice(holder: EngineHolder, slice: EngineHolder["slice"]): void {
  (holder as { slice: EngineHolder["slice"] }).slice = slice;
}

/** Ends the run once its process has exited: results of its probes no longer count. */
export function noteEnded(holder: EngineHolder): void {
  const run = liveRunOf(holder);
  const now = run?.instance.state().at;
  if (run === undefined || (now !== "ended" && now !== "gone")) return;
  const { instance, file, record, apiKey } = run;
  const { footprint, stopRequestedAt } = { footprint: undefined, stopRequestedAt: undefined, ...run };
  write(holder, { at: "ended", instance, file, record, apiKey, footprint, stopRequestedAt });
}

/** Changes the run's record; times that have not changed keep their place on the monotonic clock. */
export function setFile(holder: EngineHolder, change: Partial<EngineFile>, moment: Moment): void {
  const run = runOf(holder);
  if (run === undefined) return;
  const file = { ...run.file, ...change };
  const record = recordOf(file, moment);
  const isSame = (key: "readyAtMs" | "stop") => JSON.stringify(run.file[key]) === JSON.stringify(file[key]);
  const { startedAt } = run.record;
  const readyAt = isSame("readyAtMs") ? run.record.readyAt : record.readyAt;
  const stop = isSame("stop") ? run.record.stop : record.stop;
  write(holder, inPhase({ ...run, file, record: { ...record, startedAt, readyAt, stop } }));
}

/** Keeps the planned times exactly: converted to wall time and back they could differ, and be planned again. */
export function setStop(holder: EngineHolder, stop: Stop, moment: Moment): void {
  setFile(holder, { stop: storedStopOf(stop, moment) }, moment);
  const run = runOf(holder);
  if (run !== undefined) write(holder, { ...run, record: { ...run.record, stop } });
}

export function noteStopRequested(holder: EngineHolder, now: number): void {
  const { engine } = holder;
  if (engine.at === "draining") write(holder, { ...engine, stopRequestedAt: engine.stopRequestedAt ?? now });
}

export function noteAddressMismatch(holder: EngineHolder, isMismatched: boolean, now: number): void {
  const run = liveRunOf(holder);
  if (run !== undefined)
    write(holder, {
      ...run,
      addressMismatchSince: isMismatched ? (run.addressMismatchSince ?? now) : undefined,
    });
}

/**
 * The functions below change the run of one instance. An answer is dropped if it arrives after the engine has exited: it
 * says nothing about the next run.
 */
type Update<T> = (before: T) => T;

export function noteProbing(holder: EngineHolder, instance: Instance, next: Update<Probing>): void {
  const run = liveRunOf(holder, instance);
  if (run !== undefined) write(holder, { ...run, probing: next(run.probing) });
}

export function noteSecrets(holder: EngineHolder, instance: Instance, secrets: ReadSecrets): void {
  const run = liveRunOf(holder, instance);
  if (run !== undefined) write(holder, { ...run, secrets });
}

export function updateServed(
  holder: EngineHolder,
  instance: Instance,
  change: (before: Served) => Partial<Served>,
): void {
  const run = servedOf(liveRunOf(holder, instance));
  if (run !== undefined) write(holder, { ...run, ...change(run) });
}

export function noteIdle(holder: EngineHolder, instance: Instance, next: Update<Quiet>): void {
  const run = liveRunOf(holder, instance);
  if (run?.at === "draining") write(holder, { ...run, quiet: next(run.quiet) });
}

/** The engine was paused with the agent: earlier answers are no evidence, and its start gets that much more time. */
export function forgetPause(holder: EngineHolder, countedMs: number): void {
  const before = liveRunOf(holder);
  if (before === undefined) return;
  const { record } = before;
  const startedAt = record.startedAt + (record.readyAt === undefined ? countedMs : 0);
  const run = { ...before, record: { ...record, startedAt }, probing: forgetAnswers(before.probing) };
  if (run.at === "starting") write(holder, run);
  else if (run.at === "serving") write(holder, { ...run, workload: forgetReadings(run.workload) });
  else write(holder, { ...run, workload: forgetReadings(run.workload), quiet: {} });
}

/** Moves the run to the phase that its record implies, and keeps what is known in that phase. */
function inPhase(run: EngineRun): EngineRun {
  if (run.at === "ended") return run;
  const { instance, file, record, apiKey, probing, secrets, addressMismatchSince } = run;
  const starting = { instance, file, record, apiKey, probing, secrets, addressMismatchSince };
  if (file.stop === undefined && file.readyAtMs === undefined) return { at: "starting", ...starting };
  const unseen = { suspicion: { at: "none" }, seenTo: probing.provenTo } as const;
  const { workload, log, footprint }: Served =
    run.at === "starting" ? { workload: NO_WORKLOAD, log: unseen } : run;
  const serving = { ...starting, workload, log, footprint };
  if (file.stop === undefined) return { at: "serving", ...serving };
  return run.at === "draining" ? { ...run, ...serving } : { at: "draining", ...serving, quiet: {} };
}

function write(holder: EngineHolder, engine: EngineState): void {
  (holder as { engine: EngineState }).engine = engine;
}
