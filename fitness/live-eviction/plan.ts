/** Decides when a replica leaves a machine whose score for its model has fallen. Pure. */

import type {
  Move,
  MoveCandidate,
  MoveJudge,
  MoveSettings,
  Observation,
} from "../../src/capacity/fitness.ts";

interface Tracked {
  /** The best score on this machine so far. */
  readonly best: number;
  /** Consecutive observations below the threshold. */
  readonly low: number;
}

/** In memory only: a new leader starts with the scores of its first observation. */
export interface LiveEvictionState {
  readonly tracked: ReadonlyMap<string, Tracked>;
  /** Time of the last move, by service. */
  readonly movedAtMs: ReadonlyMap<string, number>;
}

/** A replica that moves as soon as there is a better machine. */
export interface Due extends Observation {
  readonly score: number;
  readonly best: number;
}

export const NO_OBSERVATIONS: LiveEvictionState = { tracked: new Map(), movedAtMs: new Map() };

export function createMoveJudge(settings: MoveSettings): MoveJudge {
  let state = NO_OBSERVATIONS;
  return (observations, candidatesFor, nowMs) => {
    const { state: observed, due } = observeFitness(state, observations, settings, nowMs);
    const moves = due.flatMap((one) => chooseMove(one, candidatesFor(one.replica), settings) ?? []);
    // Also noted for moves that are not executed: the service is judged again after the cool-down, not at every interval.
    state = moves.reduce((before, { service }) => noteMove(before, service, nowMs), observed);
    return moves;
  };
}

/** At most one replica per service, the lowest score first. */
export function observeFitness(
  before: LiveEvictionState,
  observations: readonly Observation[],
  settings: MoveSettings,
  nowMs: number,
): { readonly state: LiveEvictionState; readonly due: readonly Due[] } {
  const { threshold, cooldownMs, minimumStayMs } = settings;
  const movedAtMs = new Map([...before.movedAtMs].filter(([, atMs]) => nowMs - atMs < cooldownMs));
  const tracked = new Map<string, Tracked>();
  const fallen: Due[] = [];
  for (const one of observations) {
    const { replica, service, score, sinceMs } = one;
    const last = before.tracked.get(replica) ?? { best: 0, low: 0 };
    const best = Math.max(last.best, score ?? 0);
    // A score that was never known is not tracked.
    if (best === 0) continue;
    // An unknown score resets the streak of low ones; the best score stays.
    const low = score !== undefined && score <= best * (1 - threshold) ? last.low + 1 : 0;
    tracked.set(replica, { best, low });
    const isPastCooldown = !movedAtMs.has(service) && nowMs - sinceMs >= minimumStayMs;
    if (score !== undefined && low >= settings.observations && isPastCooldown)
      fallen.push({ ...one, score, best });
  }
  const due = new Map<string, Due>();
  for (const one of fallen.sort((a, b) => a.score - b.score))
    if (!due.has(one.service)) due.set(one.service, one);
  return { state: { tracked, movedAtMs }, due: [...due.values()] };
}

/** Undefined if no machine is strictly better than the current one. */
export function chooseMove(
  { replica, service, on, score, best }: Due,
  candidates: readonly MoveCandidate[],
  { observations }: MoveSettings,
): Move | undefined {
  const others = candidates.filter(({ name }) => name !== on);
  const [to] = others
    .filter((one) => one.isOpen && one.score > score)
    .sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));
  if (to === undefined) return undefined;
  const percent = Math.round(100 * (1 - score / best));
  const fall = `the score of ${on} has fallen by ${percent}%, from ${Math.round(best)} to ${Math.round(score)}, in ${observations} observations in a row`;
  const notTo = others.filter((one) => one.score <= score).map(({ name }) => name);
  return { replica, service, to, because: `${fall}; ${to.name} scores ${Math.round(to.score)}`, notTo };
}

export function noteMove(state: LiveEvictionState, service: string, nowMs: number): LiveEvictionState {
  return { ...state, movedAtMs: new Map([...state.movedAtMs, [service, nowMs]]) };
}
