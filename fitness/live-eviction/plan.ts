/** When a replica leaves a machine whose fitness for its model has fallen: observations in, decision out. Pure. */

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
  /** Observations in a row that were lower by the threshold. */
  readonly low: number;
}

/** Kept in memory: after a change of the leader the scores of then are the best so far. */
export interface LiveEvictionState {
  readonly tracked: ReadonlyMap<string, Tracked>;
  /** By service. */
  readonly movedAtMs: ReadonlyMap<string, number>;
}

/** Moves as soon as a better machine is there. */
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
    // Also where one is not carried out: its service is judged again after the cool-down, not at every interval.
    state = moves.reduce((before, { service }) => noteMove(before, service, nowMs), observed);
    return moves;
  };
}

/** At most one for each service, the lowest score first. */
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
    // One that never was known is not tracked.
    if (best === 0) continue;
    // One that is not known ends the row; what was the best remains.
    const low = score !== undefined && score <= best * (1 - threshold) ? last.low + 1 : 0;
    tracked.set(replica, { best, low });
    const isRested = !movedAtMs.has(service) && nowMs - sinceMs >= minimumStayMs;
    if (score !== undefined && low >= settings.observations && isRested) fallen.push({ ...one, score, best });
  }
  const due = new Map<string, Due>();
  for (const one of fallen.sort((a, b) => a.score - b.score))
    if (!due.has(one.service)) due.set(one.service, one);
  return { state: { tracked, movedAtMs }, due: [...due.values()] };
}

/** Undefined where no machine is strictly better than the present one. */
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
  const fall = `the score of ${on} has fallen by ${percent} %, from ${Math.round(best)} to ${Math.round(score)}, in ${observations} observations in a row`;
  const notTo = others.filter((one) => one.score <= score).map(({ name }) => name);
  return { replica, service, to, because: `${fall}; ${to.name} scores ${Math.round(to.score)}`, notTo };
}

export function noteMove(state: LiveEvictionState, service: string, nowMs: number): LiveEvictionState {
  return { ...state, movedAtMs: new Map([...state.movedAtMs, [service, nowMs]]) };
}
