/** Hosts that come and go: for a while nothing new is placed on them. Pure; what is remembered is what the Host's status says. */
import { type Condition, type ConditionUpdate, getCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import { type FlapWord, REACHABLE } from "./conditions.ts";

/** So many changes between reachable and unreachable, within the window, are flapping. */
export const FLAP_CHANGES = 3;
export const FLAP_WINDOW_MS = 10 * 60_000;
/** How long after the last of them nothing new is placed. */
export const FLAP_HOLD_MS = 10 * 60_000;
/** The newest that are kept. As each loss takes its silence, they are more than the window holds. */
export const MOST_CHANGES = 30;

export interface Flapping extends FlapWord {
  readonly untilMs: number;
}

/** When the host came or went lately, the newest last, once this is said of it. Only a change that is written counts. */
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
  return [...recent, nowIso].slice(-MOST_CHANGES);
}

/** Undefined where the host is steady. */
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
    found = { changes: together, untilMs, untilIso: new Date(untilMs).toISOString().replace(".000Z", "Z") };
  }
  return found !== undefined && found.untilMs > nowMs ? found : undefined;
}

/** Leaders' clocks differ a little; what is further ahead than the window was written by a wrong one, and must hold nothing for days. */
function isPlausible(agoMs: number): boolean {
  return agoMs > -FLAP_WINDOW_MS;
}

/** Undefined where it says nothing of the host itself: nobody has heard of it yet. In an outage of everything it is as it was, up. */
function isUp(condition: Condition | ConditionUpdate | undefined): boolean | undefined {
  if (condition?.status === "True") return true;
  if (condition?.status === "False") return false;
  return condition?.reason === "MassExpiry" ? true : undefined;
}
