/** What the pressure governor sees of the replicas, and what it does to one. Evictions are kept on disk. */

import type { GovernedEngine, GovernedEngineState } from "../pressure/governor/types.ts";
import type { RunnerContext } from "./context.ts";
import type { PressureState } from "./observed.ts";
import { memoryNeedOf } from "./prepare/need.ts";
import { keepHistory, setPast } from "./state/history.ts";
import { footprintOf, runOf, servedOf } from "./state/run.ts";
import { type ReplicaState, replicaOf } from "./state/state.ts";

/** How far back evictions count towards a longer absence. */
const FORGET_MS = 6 * 3_600_000;
const KEPT = 20;
/** A reading that is this young is not repeated before a refusal. */
const FRESH_MS = 1_000;

/** For the planner. */
export function pressureOn({ uid, past }: ReplicaState, { ports }: RunnerContext): PressureState {
  const { eviction } = past.history;
  if (eviction !== undefined) return { at: "evicted", how: eviction.how, because: eviction.because };
  const permission = ports.mayStart?.(uid) ?? { at: "yes" };
  return permission.at === "yes" ? { at: "none" } : permission;
}

/**
 * What the machine could give this replica, read again before it is refused: the last reading may be seconds
 * old and include an engine that has exited since. Undefined where the machine's memory is not known.
 */
export async function availableToStart(
  state: ReplicaState,
  context: RunnerContext,
): Promise<number | undefined> {
  const { memory, clock } = context.ports;
  const { uid, weights } = state;
  const replica = replicaOf(state);
  const available = availableFor(uid, context);
  if (memory === undefined || replica === undefined || available === undefined) return available;
  const need = memoryNeedOf(replica.spec.memory, { model: weights });
  if (need.at === "unknown" || need.bytes <= available) return available;
  const readAt = memory.latest()?.at ?? 0;
  if (readAt > context.freedAt() && clock.monotonicMs() - readAt < FRESH_MS) return available;
  await memory.read();
  return availableFor(uid, context);
}

/** By the last reading, less the claims of engines whose memory it does not show yet. */
export function availableFor(uid: string, { ports, states, admission }: RunnerContext): number | undefined {
  const reading = ports.memory?.latest();
  if (reading?.availableBytes === undefined) return undefined;
  let loadingBytes = 0;
  for (const other of states.values()) {
    const readyAt = runOf(other)?.record.readyAt;
    const isSeen = readyAt !== undefined && readyAt < reading.at;
    if (other.uid !== uid && !isSeen) loadingBytes += admission.of(other.uid)?.claimBytes ?? 0;
  }
  return reading.availableBytes - loadingBytes;
}

export function evict(
  state: ReplicaState,
  context: RunnerContext,
  how: "evict" | "unload",
  because: string,
): void {
  const { wallMs: atMs, monotonicMs } = context.moment();
  const { past } = state;
  const evictedAtMs = [...past.history.evictedAtMs, atMs].slice(-KEPT);
  state.log.warn({ how, because }, "evicting the engine to free memory");
  const evictedAt = [...past.pressure.evictedAt, monotonicMs].slice(-KEPT);
  setPast(state, { pressure: { ...past.pressure, awaySince: monotonicMs, evictedAt } });
  keepHistory(state, { ...past.history, eviction: { atMs, how, because }, evictedAtMs });
}

export function clearEviction(state: ReplicaState): void {
  const { eviction, ...rest } = state.past.history;
  if (eviction === undefined) return;
  state.log.info({}, "engine may start again after its eviction");
  const { awaySince: _, ...times } = state.past.pressure;
  setPast(state, { pressure: times });
  keepHistory(state, rest);
}

/** Everything that holds memory, or would if it were admitted. */
export function governedEngines(context: RunnerContext): {
  readonly engines: readonly GovernedEngine[];
  readonly killedAt: number | undefined;
} {
  const now = context.ports.clock.monotonicMs();
  const engines: GovernedEngine[] = [];
  let killedAt: number | undefined;
  for (const state of context.states.values()) {
    const { pressure } = state.past;
    const replica = replicaOf(state);
    const run = runOf(state);
    if (pressure.killedAt !== undefined)
      killedAt = Math.max(killedAt ?? Number.NEGATIVE_INFINITY, pressure.killedAt);
    const standing = standingOf(state, now);
    if (standing === undefined) continue;
    const claimBytes = run?.file.claimBytes ?? replica?.spec.memory.claimBytes ?? 0;
    engines.push({
      id: state.uid,
      standing,
      priority: replica?.spec.priority ?? "normal",
      isProtected: replica?.spec.evictionProtection ?? false,
      bytes: Math.max(claimBytes, footprintOf(run)?.bytes ?? 0),
      age: Date.parse(replica?.metadata.creationTimestamp ?? "") || 0,
      evictions: pressure.evictedAt.filter((at) => now - at < FORGET_MS).length,
    });
  }
  return { engines, killedAt };
}

function standingOf(state: ReplicaState, now: number): GovernedEngineState | undefined {
  const { history, pressure } = state.past;
  const run = runOf(state);
  const isLeaving = state.wish.at === "gone" || replicaOf(state)?.metadata.deletionTimestamp !== undefined;
  if (run !== undefined && run.instance.state().at !== "gone") {
    const { record } = run;
    if (isLeaving || record.stop !== undefined || history.eviction !== undefined) return { at: "ending" };
    if (record.readyAt === undefined) return { at: "starting" };
    return { at: "running", idleSince: servedOf(run)?.workload.idleSince };
  }
  if (isLeaving) return undefined;
  if (history.eviction !== undefined) return { at: "evicted", since: pressure.awaySince ?? now };
  return state.shown.plan?.reason === "MemoryPressure" ? { at: "waiting" } : undefined;
}
