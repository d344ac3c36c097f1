/** A run of an engine, by phase. Only this module writes it: each transition replaces the value. */
import type { Instance } from "../../instances/instance.ts";
import type { Quiet } from "../evidence/quiet.ts";
import type { Footprint, Launch, Moment, ReadSecrets, RunRecord, Slice, Stop } from "../observed.ts";
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
  /** Its folder cannot be read, so whether an engine runs is not known. */
  | { readonly at: "unreadable"; readonly why: string }
  | EngineRun;

/** From the start or adoption of an engine until nothing of it is left. */
export type EngineRun = StartingRun | ServingRun | DrainingRun | EndedRun;
/** Its process may be there. */
export type LiveRun = Exclude<EngineRun, EndedRun>;

interface Launched {
  readonly instance: Instance;
  readonly file: EngineFile;
  /** The same on this process's clock, taken over once: a wall clock that is set later changes no deadline. */
  readonly record: RunRecord;
  readonly apiKey: string | undefined;
}

/** It has not been Ready yet. */
interface StartingRun extends Launched {
  readonly at: "starting";
  readonly probing: Probing;
  readonly secrets: ReadSecrets;
  /** Since when the host's address is another one than the engine's. */
  readonly elsewhereSince?: number;
}

interface Served {
  readonly workload: Workload;
  readonly log: LogScan;
  readonly footprint?: Footprint;
}

export interface ServingRun extends Omit<StartingRun, "at">, Served {
  readonly at: "serving";
}

/** It is to stop, or to be killed. */
interface DrainingRun extends Omit<StartingRun, "at">, Served {
  readonly at: "draining";
  readonly quiet: Quiet;
  /** When it was asked to stop, on the monotonic clock. */
  readonly stopAskedAt?: number;
}

/** It has exited; a process that it started may still be there. */
interface EndedRun extends Launched {
  readonly at: "ended";
  readonly footprint?: Footprint;
  readonly stopAskedAt?: number;
}

/** What has an engine, and the slice that it is announced in. */
interface EngineHolder {
  readonly engine: EngineState;
  /** From the start of a run on; its state is read when it is needed. */
  readonly slice: Omit<Slice, "state">;
}

export const NOTHING_RUNS: EngineState = { at: "none", launch: { at: "untried" } };
export const NEVER_ANNOUNCED: EngineHolder["slice"] = { wasExposed: false, mayArrive: false };

export function runOf({ engine }: Pick<EngineHolder, "engine">): EngineRun | undefined {
  return engine.at === "none" || engine.at === "unreadable" ? undefined : engine;
}

/** Undefined from its exit on, and where another run than that of `instance` has begun. */
export function liveRunOf(holder: Pick<EngineHolder, "engine">, instance?: Instance): LiveRun | undefined {
  const run = runOf(holder);
  if (run === undefined || run.at === "ended") return undefined;
  return instance === undefined || run.instance === instance ? run : undefined;
}

/** What a run that was Ready gets done; undefined for any other. */
export function servedOf(run: EngineRun | undefined): ServingRun | DrainingRun | undefined {
  return run?.at === "serving" || (run?.at === "draining" && run.file.readyAtMs !== undefined)
    ? run
    : undefined;
}

/** As last measured. */
export function footprintOf(run: EngineRun | undefined): Footprint | undefined {
  return run === undefined || run.at === "starting" ? undefined : run.footprint;
}

/** A run of which only the record is known yet. */
export function newEngineRun(
  instance: Instance,
  file: EngineFile,
  apiKey: string | undefined,
  moment: Moment,
): EngineRun {
  // A new agent reads them soon; a new engine has just got them.
  const secrets = { at: file.readyAtMs === undefined ? moment.monotonicMs : Number.NEGATIVE_INFINITY };
  const record = recordOf(file, moment);
  return inPhase({ at: "starting", instance, file, record, apiKey, probing: UNPROBED, secrets });
}

/** An engine was started or adopted; `mayArrive`: an announcement of it may be on its way. */
export function beginRun(holder: EngineHolder, run: EngineRun, mayArrive: boolean): void {
  write(holder, run);
  setSlice(holder, { ...NEVER_ANNOUNCED, mayArrive });
}

/** Nothing of the run is left. */
export function endRun(holder: EngineHolder): void {
  write(holder, NOTHING_RUNS);
  setSlice(holder, NEVER_ANNOUNCED);
}

/** Nothing is known to run: a start has failed, or the folder is read again. */
export function noteNoRun(holder: EngineHolder, launch: Launch = { at: "untried" }): void {
  write(holder, { at: "none", launch });
}

export function noteUnreadableRun(holder: EngineHolder, why: string): void {
  write(holder, { at: "unreadable", why });
}

export function setSlice(holder: EngineHolder, slice: EngineHolder["slice"]): void {
  (holder as { slice: EngineHolder["slice"] }).slice = slice;
}

/** Its process has exited: no probe of it counts any more. */
export function noteEnded(holder: EngineHolder): void {
  const run = liveRunOf(holder);
  const now = run?.instance.state().at;
  if (run === undefined || (now !== "ended" && now !== "gone")) return;
  const { instance, file, record, apiKey } = run;
  const { footprint, stopAskedAt } = { footprint: undefined, stopAskedAt: undefined, ...run };
  write(holder, { at: "ended", instance, file, record, apiKey, footprint, stopAskedAt });
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

/** Exactly as planned: what went over the wall clock and back could differ and be planned again. */
export function setStop(holder: EngineHolder, stop: Stop, moment: Moment): void {
  setFile(holder, { stop: storedStopOf(stop, moment) }, moment);
  const run = runOf(holder);
  if (run !== undefined) write(holder, { ...run, record: { ...run.record, stop } });
}

export function noteStopAsked(holder: EngineHolder, now: number): void {
  const { engine } = holder;
  if (engine.at === "draining") write(holder, { ...engine, stopAskedAt: engine.stopAskedAt ?? now });
}

export function noteElsewhere(holder: EngineHolder, isElsewhere: boolean, now: number): void {
  const run = liveRunOf(holder);
  if (run !== undefined)
    write(holder, { ...run, elsewhereSince: isElsewhere ? (run.elsewhereSince ?? now) : undefined });
}

/** All that follow are about one run: an answer that comes after its end says nothing about the next one. */
type Of<T> = (before: T) => T;

export function noteProbing(holder: EngineHolder, instance: Instance, next: Of<Probing>): void {
  const run = liveRunOf(holder, instance);
  if (run !== undefined) write(holder, { ...run, probing: next(run.probing) });
}

export function noteSecrets(holder: EngineHolder, instance: Instance, secrets: ReadSecrets): void {
  const run = liveRunOf(holder, instance);
  if (run !== undefined) write(holder, { ...run, secrets });
}

export function noteWorkload(holder: EngineHolder, instance: Instance, next: Of<Workload>): void {
  const run = servedOf(liveRunOf(holder, instance));
  if (run !== undefined) write(holder, { ...run, workload: next(run.workload) });
}

export function noteLog(holder: EngineHolder, instance: Instance, next: Of<LogScan>): void {
  const run = servedOf(liveRunOf(holder, instance));
  if (run !== undefined) write(holder, { ...run, log: next(run.log) });
}

export function noteFootprint(
  holder: EngineHolder,
  instance: Instance,
  next: Of<Footprint | undefined>,
): void {
  const run = servedOf(liveRunOf(holder, instance));
  if (run !== undefined) write(holder, { ...run, footprint: next(run.footprint) });
}

export function noteIdle(holder: EngineHolder, instance: Instance, next: Of<Quiet>): void {
  const run = liveRunOf(holder, instance);
  if (run?.at === "draining") write(holder, { ...run, quiet: next(run.quiet) });
}

/** The engine was paused too: old answers are no evidence, and its start gets that much more time. */
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

/** The phase that the record names, with what is known in it. */
function inPhase(run: EngineRun): EngineRun {
  if (run.at === "ended") return run;
  const { instance, file, record, apiKey, probing, secrets, elsewhereSince } = run;
  const starting = { instance, file, record, apiKey, probing, secrets, elsewhereSince };
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
