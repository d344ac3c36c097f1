/** When a replica leaves a machine whose fitness for its model has fallen: observations in, decision out. Pure. */

export interface LiveEvictionSettings {
  /** Part of the best score seen, from 0 to 1, by which a score must have fallen. */
  readonly threshold: number;
  /** So many observations in a row. */
  readonly observations: number;
  /** Between two moves of one service. */
  readonly cooldownMs: number;
  /** A replica is not moved before it has been on its machine for this time. */
  readonly minimumStayMs: number;
}

/** One replica, or one ready pod, as it is now. */
export interface Observation {
  /** Unique, also after its name is used again. */
  readonly replica: string;
  /** `namespace/name` */
  readonly service: string;
  readonly on: string;
  readonly sinceMs: number;
  /** 0 to 100; 0 where the machine no longer holds the model; undefined where it is not known now. */
  readonly score: number | undefined;
}

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

/** At most one for each service, the lowest score first. */
export function observeFitness(
  before: LiveEvictionState,
  observations: readonly Observation[],
  settings: LiveEvictionSettings,
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

export interface MoveCandidate {
  readonly name: string;
  readonly score: number;
  /** It would take the replica now. */
  readonly isOpen: boolean;
}

export interface Move {
  readonly to: MoveCandidate;
  readonly because: string;
  /** Machines known to be no better, by name: whoever places the replica has other criteria, and must not take one of them. */
  readonly notTo: readonly string[];
}

/** Undefined where no machine is strictly better than the present one. */
export function chooseMove(
  { on, score, best }: Due,
  candidates: readonly MoveCandidate[],
  { observations }: LiveEvictionSettings,
): Move | undefined {
  const others = candidates.filter(({ name }) => name !== on);
  const [to] = others
    .filter((one) => one.isOpen && one.score > score)
    .sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1));
  if (to === undefined) return undefined;
  const percent = Math.round(100 * (1 - score / best));
  const fall = `the score of ${on} has fallen by ${percent} %, from ${Math.round(best)} to ${Math.round(score)}, in ${observations} observations in a row`;
  const notTo = others.filter((one) => one.score <= score).map(({ name }) => name);
  return { to, because: `${fall}; ${to.name} scores ${Math.round(to.score)}`, notTo };
}

export function noteMove(state: LiveEvictionState, service: string, nowMs: number): LiveEvictionState {
  return { ...state, movedAtMs: new Map([...state.movedAtMs, [service, nowMs]]) };
}
