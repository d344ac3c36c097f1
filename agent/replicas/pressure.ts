/** The replicas as the pressure governor sees them, and the evictions that it orders. Evictions are saved to disk. */

import { defaultLimits } from "../pressure/governor/limits.ts";
import type { GovernedEngine, GovernedEngineState } from "../pressure/governor/types.ts";
import type { RunnerContext } from "./context/context.ts";
import type { PressureState } from "./evidence/observed.ts";
import { saveHistory, setPast } from "./state/history.ts";
import { footprintOf, runOf, servedOf } from "./state/run.ts";
import { type ReplicaState, replicaOf } from "./state/state.ts";

const MAX_EVICTIONS = 20;

/** The pressure state that the planner reads. */
export function pressureOn({ uid, past }: ReplicaState, { ports }: RunnerContext): PressureState {
  const { eviction } = past.history;
  if (eviction !== undefined) return { at: "evicted", how: eviction.how, because: eviction.because };
  const permission = ports.mayStart?.(uid) ?? { at: "yes" };
  return permission.at === "yes" ? { at: "none" } : permission;
}

/**
 * Memory available to the replica: the last reading, less the claims of engines whose memory the reading does not
 * include yet. Undefined if the machine's memory is not known.
 */
export function availableFor(uid: string, { ports, states, admission }: RunnerContext): number | undefined {
  const reading = ports.memory?.latest();
  if (reading?.availableBytes === undefined) return undefined;
  let loadingBytes = 0;
  for (const other of states.values()) {
    const readyAt = runOf(other)?.record.readyAt;
    const isIncluded = readyAt !== undefined && readyAt < reading.at;
    if (other.uid !== uid && !isIncluded) loadingBytes += admission.get(other.uid)?.claimBytes ?? 0;
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
  const evictedAtMs = [...past.history.evictedAtMs, atMs].slice(-MAX_EVICTIONS);
  state.log.warn({ how, because }, "evicting the engine to free memory");
  const evictedAt = [...past.pressure.evictedAt, monotonicMs].slice(-MAX_EVICTIONS);
  setPast(state, { pressure: { ...past.pressure, evictedSince: monotonicMs, evictedAt } });
  saveHistory(state, { ...past.history, eviction: { atMs, how, because }, evictedAtMs });
}

export function clearEviction(state: ReplicaState): void {
  const { eviction, ...history } = state.past.history;
  if (eviction === undefined) return;
  state.log.info({}, "engine may start again after its eviction");
  setPast(state, { pressure: { ...state.past.pressure, evictedSince: undefined } });
  saveHistory(state, history);
}

/** Every replica that holds memory, or would if it were admitted. */
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
      evictions: pressure.evictedAt.filter((at) => now - at < defaultLimits.forgetMs).length,
    });
  }
  return { engines, killedAt };
}

function standingOf(state: ReplicaState, now: number): GovernedEngineState | undefined {
  const { history, pressure } = state.past;
  const run = runOf(state);
  const isLeaving =
    state.desired.at === "deleted" || replicaOf(state)?.metadata.deletionTimestamp !== undefined;
  if (run !== undefined && run.instance.state().at !== "gone") {
    const { record } = run;
    if (isLeaving || record.stop !== undefined || history.eviction !== undefined) return { at: "ending" };
    if (record.readyAt === undefined) return { at: "starting" };
    return { at: "running", idleSince: servedOf(run)?.workload.idleSince };
  }
  if (isLeaving) return undefined;
  if (history.eviction !== undefined) return { at: "evicted", since: pressure.evictedSince ?? now };
  return state.published.plan?.reason === "MemoryPressure" ? { at: "waiting" } : undefined;
}
