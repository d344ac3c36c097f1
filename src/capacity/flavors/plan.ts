/** Chooses the flavor that a service runs on, with the reason for each preferred flavor that it does not use. Pure. */
import type { ErrorCode } from "../../api/errors.ts";

/** The current state of a flavor. */
export type FlavorState =
  /** `replicas` can run there, those that run there now included. */
  | { readonly at: "room"; readonly replicas: number; readonly message: string }
  /** Hosts or nodes match, and none has room. */
  | { readonly at: "full"; readonly message: string }
  /** No host or node matches. */
  | { readonly at: "unmatched"; readonly message: string }
  /** The settings of the service exclude it. */
  | { readonly at: "excluded"; readonly message: string };

export interface JudgedFlavor {
  readonly name: string;
  readonly on: "Hosts" | "Pods";
  readonly state: FlavorState;
}

export interface FlavorsInput {
  /** In order of preference. */
  readonly flavors: readonly JudgedFlavor[];
  /** Desired number of replicas; at least 1. */
  readonly desired: number;
  /** The flavor of the last pass, if the service still has it. */
  readonly current: string | undefined;
  /** True if replicas serve on the current flavor, which a change would stop. */
  readonly isServing: boolean;
  /** Reason why replicas that serve may be replaced now; undefined if nothing may stop them. */
  readonly mayLeave: "rollout" | "liveEviction" | undefined;
}

export interface NotTaken {
  readonly name: string;
  readonly reason: ErrorCode;
  readonly message: string;
}

export interface FlavorsPlan {
  /** Undefined if every flavor is excluded. */
  readonly taken: string | undefined;
  /** False if the replicas wait for room on the flavor. */
  readonly hasRoom: boolean;
  readonly reason: string;
  /** Flavors before the one that is taken; all of them if none has room. */
  readonly skipped: readonly NotTaken[];
  /** A preferred flavor that has room, and must wait for a rollout. */
  readonly available: string | undefined;
}

export function planFlavors(input: FlavorsInput): FlavorsPlan {
  const { flavors, desired, current: currentName, isServing, mayLeave } = input;
  const current = flavors.find(({ name }) => name === currentName);
  const best = bestOf(flavors, desired);
  if (best === undefined) {
    const skipped = flavors.map((one) => notTaken(one, desired));
    return {
      taken: undefined,
      hasRoom: false,
      reason: "no flavor can be used",
      skipped,
      available: undefined,
    };
  }
  const isBetter = current !== undefined && flavors.indexOf(best) < flavors.indexOf(current);
  const keepsFlavor = current !== undefined && isServing && canStay(current, best, desired);
  if (keepsFlavor && isBetter && mayLeave === undefined) {
    const skipped = before(flavors, current).map((one) =>
      one === best ? waits(best) : notTaken(one, desired),
    );
    const reason = `it serves, and ${best.name} has become free: used at the next rollout`;
    return { taken: current.name, hasRoom: roomOf(current) > 0, reason, skipped, available: best.name };
  }
  const taken = keepsFlavor && !isBetter ? current : best;
  const hasRoom = roomOf(taken) > 0;
  const skipped = (hasRoom ? before(flavors, taken) : flavors.filter((one) => one !== taken)).map((one) =>
    notTaken(one, desired),
  );
  const moves =
    isBetter && taken === best && isServing && mayLeave !== undefined ? `, ${MOVES[mayLeave]}` : "";
  return {
    taken: taken.name,
    hasRoom,
    reason: `${reasonOf(taken, flavors)}${moves}`,
    skipped,
    available: undefined,
  };
}

const MOVES = { rollout: "taken with this rollout", liveEviction: "taken by live eviction" };

/**
 * The first flavor with room for all replicas, else the first with room for one. If none has room, pods come first: an autoscaler
 * adds nodes for pending pods, and nothing adds hosts.
 */
function bestOf(flavors: readonly JudgedFlavor[], desired: number): JudgedFlavor | undefined {
  const possible = flavors.filter(({ state }) => state.at !== "excluded");
  const first = (passes: (one: JudgedFlavor) => boolean) => possible.find(passes);
  return (
    first((one) => roomOf(one) >= desired) ??
    first((one) => roomOf(one) > 0) ??
    first(({ on }) => on === "Pods") ??
    first(({ state }) => state.at === "full") ??
    possible[0]
  );
}

/** False if its replicas must leave, or another flavor has room for more of them. */
function canStay(current: JudgedFlavor, best: JudgedFlavor, desired: number): boolean {
  if (current.state.at === "excluded") return false;
  if (current.state.at === "unmatched") return roomOf(best) === 0;
  return roomOf(current) >= Math.min(desired, roomOf(best));
}

function roomOf({ state }: JudgedFlavor): number {
  return state.at === "room" ? state.replicas : 0;
}

function before(flavors: readonly JudgedFlavor[], taken: JudgedFlavor): readonly JudgedFlavor[] {
  return flavors.slice(0, flavors.indexOf(taken));
}

function waits({ name, state }: JudgedFlavor): NotTaken {
  return { name, reason: "FlavorAvailable", message: `${state.message}; used at the next rollout` };
}

const REASONS = {
  room: "FlavorFull",
  full: "FlavorFull",
  unmatched: "FlavorUnmatched",
  excluded: "FlavorExcluded",
} as const;

function notTaken({ name, state }: JudgedFlavor, desired: number): NotTaken {
  const message =
    state.at === "room"
      ? `room for ${state.replicas} of ${desired} replicas: ${state.message}`
      : state.message;
  return { name, reason: REASONS[state.at], message };
}

function reasonOf(taken: JudgedFlavor, flavors: readonly JudgedFlavor[]): string {
  const { state } = taken;
  if (state.at !== "room") return `no flavor has room; replicas wait for this one: ${state.message}`;
  return flavors[0] === taken ? `preferred: ${state.message}` : state.message;
}
