/** Detects flapping hosts, which get no new replicas for a while. Pure; the only state is the Host's status. */
import { type Condition, type ConditionUpdate, getCondition } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { type FlapStatus, REACHABLE } from "./conditions.ts";

/** A host with this many changes between reachable and unreachable within the window is flapping. */
export const FLAP_CHANGES = 3;
export const FLAP_WINDOW_MS = 10 * 60_000;
/** Time after the last change during which the host gets no new replicas. */
export const FLAP_HOLD_MS = 10 * 60_000;
/** Maximum number of stored changes. More cannot occur within the window, because each loss requires a silence. */
export const MAX_FLAP_CHANGES = 30;

export interface Flapping extends FlapStatus {
  readonly untilMs: number;
}

/** Times at which the host recently became reachable or unreachable, newest last, including this update. */
export function changesAfter(
  status: Host["status"],
  update: ConditionUpdate | undefined,
  nowIso: string,
): readonly string[] {
  const changes = status?.reachableChanges ?? [];
  const wasUp = isUp(getCondition(status?.conditions, REACHABLE));
  const willBeUp = isUp(update);
  if (wasUp === undefined || willBeUp === undefined || willBeUp === wasUp) return changes;
  const nowMs = Date.parse(nowIso);
  const recent = changes.filter((at) => {
    const agoMs = nowMs - Date.parse(at);
    return agoMs < FLAP_WINDOW_MS + FLAP_HOLD_MS && isPlausible(agoMs);
  });
  return [...recent, nowIso].slice(-MAX_FLAP_CHANGES);
}

/** Undefined if the host is steady. */
export function readFlapping(changes: readonly string[], nowIso: string): Flapping | undefined {
  const nowMs = Date.parse(nowIso);
  const times = changes
    .map((at) => Date.parse(at))
    .filter((atMs) => isPlausible(nowMs - atMs))
    .sort((a, b) => a - b);
  let found: Flapping | undefined;
  for (const [index, atMs] of times.entries()) {
    const together = times.slice(0, index + 1).filter((other) => atMs - other < FLAP_WINDOW_MS).length;
    if (together < FLAP_CHANGES) continue;
    const untilMs = atMs + FLAP_HOLD_MS;
    found = { changes: together, untilMs, untilIso: isoSeconds(untilMs) };
  }
  return found !== undefined && found.untilMs > nowMs ? found : undefined;
}

/** Ignores times that are further in the future than the window: a leader's wrong clock must not block a host for days. */
function isPlausible(agoMs: number): boolean {
  return agoMs > -FLAP_WINDOW_MS;
}

/** Undefined before the first report of the host. In a mass expiry the host counts as up. */
function isUp(condition: Condition | ConditionUpdate | undefined): boolean | undefined {
  if (condition?.status === "True") return true;
  if (condition?.status === "False") return false;
  return condition?.reason === "MassExpiry" ? true : undefined;
}
