/** The schedule of a run, drawn from its seed before anything starts. Pure. */

import { createRandom, type Random } from "../../bed/random.ts";
import {
  ALL_FAULTS,
  type EngineName,
  type FaultEntry,
  type FaultKind,
  faultsFor,
  GATEWAY_FAULTS,
  HOSTS,
  nodeNames,
  SERVICES,
} from "./catalog.ts";

export interface PlannedFault {
  readonly id: number;
  readonly kind: FaultKind;
  /** Of the host or service that it is on; absent for the cluster's own parts. */
  readonly target?: string;
  /** From the beginning of its round. */
  readonly atMs: number;
  readonly forMs: number;
  /** In 0..1: what is decided only when it happens, such as which engine of the host. */
  readonly chance: number;
}

/** Faults, then quiet: everything has to come right before the next round begins. */
export interface Round {
  readonly index: number;
  readonly isLong: boolean;
  readonly lengthMs: number;
  readonly faults: readonly PlannedFault[];
}

export interface Schedule {
  readonly seed: number;
  readonly minutes: number;
  readonly engine: EngineName;
  readonly nodes: number;
  readonly rounds: readonly Round[];
}

const SHORT_MS = 45_000;
const LONG_MS = 90_000;
/** What coming right takes on the whole, for the sum of minutes. */
const QUIET_MS = 25_000;
/** Between the beginnings of two faults. */
const GAP_MS = { least: 1_000, most: 9_000 } as const;
/** Two in a long round: more would leave nothing to compare with. */
const LONG_FAULTS = 2;
const TRIES = 20;

/** The same seed, minutes, engine and nodes give the same schedule. Every second round is a long one. */
export function planFaults(
  seed: number,
  minutes: number,
  engine: EngineName = "llamacpp",
  nodes = 0,
): Schedule {
  const random = createRandom(seed);
  const catalog = faultsFor(engine, nodes);
  const rounds: Round[] = [];
  let left = minutes * 60_000;
  let id = 1;
  let gatewayId = GATEWAY_IDS;
  while (rounds.length === 0 || left > 0) {
    const isLong = rounds.length % 2 === 1 && left >= LONG_MS;
    const round = planRound({ random, catalog, nodes }, rounds.length, isLong, id);
    const ofGateway = planGatewayFaults(seed, round, gatewayId);
    rounds.push({ ...round, faults: [...round.faults, ...ofGateway] });
    id += round.faults.length;
    gatewayId += ofGateway.length;
    left -= round.lengthMs + QUIET_MS;
  }
  return { seed, minutes, engine, nodes, rounds };
}

interface Source {
  readonly random: Random;
  readonly catalog: ReturnType<typeof faultsFor>;
  readonly nodes: number;
}

function planRound(source: Source, index: number, isLong: boolean, firstId: number): Round {
  const { random } = source;
  const lengthMs = isLong ? LONG_MS : SHORT_MS;
  const faults: PlannedFault[] = [];
  let longLeft = isLong ? LONG_FAULTS : 0;
  for (let atMs = random.integer(500, 3_000); atMs < lengthMs - 2_000; ) {
    const fault = drawFault(source, faults, { atMs, lengthMs, id: firstId + faults.length, longLeft });
    if (fault !== undefined) {
      if (fault.forMs > LONG_THRESHOLD_MS) longLeft -= 1;
      faults.push(fault);
    }
    atMs += random.integer(GAP_MS.least, GAP_MS.most);
  }
  return { index, isLong, lengthMs, faults };
}

/** The first id of a fault of the gateway. */
const GATEWAY_IDS = 10_000;
const GATEWAY_GAP_MS = { least: 5_000, most: 8_000 } as const;
/** A process that starts, or a stream that ends, on a busy machine. */
const GATEWAY_ROOM_MS = 10_000;

/** In turn, so that a short run has every kind. Drawn from a second seed, so that the schedule of the other faults does not depend on them. */
function planGatewayFaults(
  seed: number,
  { index, lengthMs }: Round,
  firstId: number,
): readonly PlannedFault[] {
  const random = createRandom(seed + GATEWAY_IDS * (index + 1));
  const faults: PlannedFault[] = [];
  for (let atMs = random.integer(2_000, 5_000); atMs < lengthMs - GATEWAY_ROOM_MS; ) {
    const id = firstId + faults.length;
    const { kind, ...entry } = GATEWAY_FAULTS[id % GATEWAY_FAULTS.length] ?? GATEWAY_FAULTS[0];
    const forMs = "lasts" in entry ? random.integer(entry.lasts.leastMs, entry.lasts.mostMs) : 0;
    faults.push({ id, kind, atMs, forMs, chance: random.next() });
    atMs += forMs + random.integer(GATEWAY_GAP_MS.least, GATEWAY_GAP_MS.most);
  }
  return faults;
}

/** Longer than any short fault. */
const LONG_THRESHOLD_MS = 19_999;

interface Draw {
  readonly atMs: number;
  readonly lengthMs: number;
  readonly id: number;
  readonly longLeft: number;
}

/** Undefined where nothing that was drawn fits beside the others. */
function drawFault(
  { random, catalog, nodes }: Source,
  others: readonly PlannedFault[],
  draw: Draw,
): PlannedFault | undefined {
  const { atMs, lengthMs, id, longLeft } = draw;
  const longOnes = catalog.filter((entry) => entry.lastsLong !== undefined);
  const isEarly = atMs < lengthMs / 4;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const wantsLong = longLeft > 0 && isEarly;
    const entry = random.pickWeighted(
      (wantsLong ? longOnes : catalog).map((one) => [one, one.weight] as const),
    );
    const target = drawTarget(random, entry, nodes);
    const lasts = wantsLong ? entry.lastsLong : entry.lasts;
    const drawnMs = lasts === undefined ? 0 : random.integer(lasts.leastMs, lasts.mostMs);
    const forMs = Math.min(drawnMs, lengthMs - atMs);
    const chance = random.next();
    const fault = { id, kind: entry.kind, atMs, forMs, chance, target };
    if (!others.some((other) => meets(other, fault))) return fault;
  }
  return undefined;
}

function drawTarget(random: Random, { on, services }: FaultEntry, nodes: number): string | undefined {
  switch (on) {
    case "host":
      return random.pick(HOSTS);
    case "service":
      return random.pick(services ?? SERVICES);
    case "node":
      return random.pick(nodeNames(nodes));
    case "cluster":
      return undefined;
    default:
      return on satisfies never;
  }
}

/** After one fault is healed its lock stays taken for a moment, so that each has an effect of its own. */
const APART_MS = 1_500;

function meets(one: PlannedFault, other: PlannedFault): boolean {
  if (lockOf(one) !== lockOf(other)) return false;
  return one.atMs < other.atMs + other.forMs + APART_MS && other.atMs < one.atMs + one.forMs + APART_MS;
}

/** What it holds while it lasts. */
export function lockOf({ kind, target }: Pick<PlannedFault, "kind" | "target">): string {
  const entry = ALL_FAULTS.find((one) => one.kind === kind);
  return (entry?.lock ?? kind).replace("*", target ?? "");
}
