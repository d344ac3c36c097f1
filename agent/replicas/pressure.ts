/** What the pressure governor sees of the replicas, and what it does to one. Evictions are kept on disk. */
import type { RunAtEnd } from "../../src/engines/run-at-end.ts";
import type { Engine, Standing } from "../../src/memory/governor/types.ts";
import type { Moment } from "../../src/replica/desired.ts";
import type { PressureState } from "../../src/replica/observed.ts";
import type { RunnerContext } from "./context.ts";
import { type History, type HistoryExit, writeHistory } from "./files/history.ts";
import type { PressureTimes, ReplicaState } from "./state.ts";

/** How far back evictions count towards a longer absence. */
const FORGET_MS = 6 * 3_600_000;
const KEPT = 20;
/** Readings are never older than this. */
const READING_MS = 6_000;

/** For the planner. */
export function pressureOn({ uid, history }: ReplicaState, { ports }: RunnerContext): PressureState {
  const { eviction } = history;
  if (eviction !== undefined) return { at: "evicted", how: eviction.how, because: eviction.because };
  const permission = ports.mayStart?.(uid) ?? { at: "yes" };
  return permission.at === "yes" ? { at: "none" } : permission;
}

/** What the machine could give a new engine: what is available, less what those that are still loading will take. */
export function availableFor(uid: string, context: RunnerContext): number | undefined {
  const { ports, states, admission } = context;
  const availableBytes = ports.memoryAvailable?.();
  if (availableBytes === undefined) return undefined;
  const seenAt = ports.clock.monotonicMs() - READING_MS;
  let loadingBytes = 0;
  for (const { uid: other, record } of states.values()) {
    // What became ready after the last reading has taken its memory unseen.
    const isSeen = record?.readyAt !== undefined && record.readyAt < seenAt;
    if (other !== uid && !isSeen) loadingBytes += admission.of(other)?.claimBytes ?? 0;
  }
  return availableBytes - loadingBytes;
}

/** How short the machine's memory is now, if it is; absent also where nobody knows. For the end of an engine. */
export function memoryTrouble({ ports }: Pick<RunnerContext, "ports">): Pick<RunAtEnd, "memory"> {
  switch (ports.memoryLevel?.()) {
    case "Critical":
      return { memory: "critical" };
    case "Warning":
      return { memory: "short" };
    default:
      return {};
  }
}

export function evict(
  state: ReplicaState,
  context: RunnerContext,
  how: "evict" | "unload",
  because: string,
): void {
  const { wallMs: atMs, monotonicMs } = context.moment();
  const evictedAtMs = [...state.history.evictedAtMs, atMs].slice(-KEPT);
  state.log.warn({ how, because }, "engine is ended to give memory back");
  const evictedAt = [...state.pressureTimes.evictedAt, monotonicMs].slice(-KEPT);
  state.pressureTimes = { ...state.pressureTimes, awaySince: monotonicMs, evictedAt };
  keep(state, { ...state.history, eviction: { atMs, how, because }, evictedAtMs });
}

export function readmit(state: ReplicaState): void {
  const { eviction, ...rest } = state.history;
  if (eviction === undefined) return;
  state.log.info({}, "engine may return after its eviction");
  const { awaySince: _, ...times } = state.pressureTimes;
  state.pressureTimes = times;
  keep(state, rest);
}

/** In memory first: a full disk must not keep an engine from being ended. */
function keep(state: ReplicaState, history: History): void {
  state.history = history;
  try {
    writeHistory(state.dir, history);
  } catch (err) {
    state.log.warn({ err }, "could not write the replica's history");
  }
}

/** What is on disk, placed on this process's clock and never into its future: the wall clock may have been set back. */
export function pressureTimesOf(history: History, { wallMs, monotonicMs }: Moment): PressureTimes {
  const past = (atMs: number): number => Math.min(monotonicMs, atMs - wallMs + monotonicMs);
  const { eviction, evictedAtMs, lastExit } = history;
  return {
    evictedAt: evictedAtMs.map(past),
    ...(eviction === undefined ? {} : { awaySince: past(eviction.atMs) }),
    ...(isSystemKill(lastExit) ? { killedAt: past(Date.parse(lastExit.at)) } : {}),
  };
}

/** An engine has just ended: by the system, which was out of memory, or otherwise. */
export function noteExit(state: ReplicaState, exit: HistoryExit, now: number): void {
  const { killedAt: _, ...times } = state.pressureTimes;
  state.pressureTimes = isSystemKill(exit) ? { ...times, killedAt: now } : times;
}

function isSystemKill(exit: HistoryExit | undefined): exit is HistoryExit {
  return exit?.signal === "SIGKILL" && !exit.killedByUs;
}

/** Everything that holds memory, or would if it were let in. */
export function governed(context: RunnerContext): {
  readonly engines: readonly Engine[];
  readonly killedAt: number | undefined;
} {
  const now = context.ports.clock.monotonicMs();
  const engines: Engine[] = [];
  let killedAt: number | undefined;
  for (const state of context.states.values()) {
    const { desired, pressureTimes, file, run } = state;
    if (pressureTimes.killedAt !== undefined)
      killedAt = Math.max(killedAt ?? Number.NEGATIVE_INFINITY, pressureTimes.killedAt);
    const standing = standingOf(state, now);
    if (standing === undefined) continue;
    const claimBytes = file?.claimBytes ?? desired?.spec.memory.claimBytes ?? 0;
    engines.push({
      id: state.uid,
      standing,
      priority: desired?.spec.priority ?? "normal",
      isProtected: desired?.spec.evictionProtection ?? false,
      bytes: Math.max(claimBytes, run.footprint?.bytes ?? 0),
      age: Date.parse(desired?.metadata.creationTimestamp ?? "") || 0,
      evictions: pressureTimes.evictedAt.filter((at) => now - at < FORGET_MS).length,
    });
  }
  return { engines, killedAt };
}

function standingOf(state: ReplicaState, now: number): Standing | undefined {
  const { history, record, plan } = state;
  const process = state.process?.state();
  const isLeaving = state.isGone || state.desired?.metadata.deletionTimestamp !== undefined;
  if (process !== undefined && process.at !== "gone") {
    if (isLeaving || record?.stop !== undefined || history.eviction !== undefined) return { at: "ending" };
    if (record?.readyAt === undefined) return { at: "starting" };
    return { at: "running", idleSince: state.run.idleSince };
  }
  if (isLeaving) return undefined;
  if (history.eviction !== undefined) return { at: "evicted", since: state.pressureTimes.awaySince ?? now };
  return plan?.reason === "MemoryPressure" ? { at: "waiting" } : undefined;
}
