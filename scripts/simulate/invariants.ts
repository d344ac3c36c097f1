/** What must hold at every moment, worked out from the world itself and not from the board's sums. */
import { selectorMatches } from "../../src/api/fields/kubernetes.ts";
import { agedPriority, PRIORITIES } from "../../src/placement/priority.ts";
import { type HostClaim, slotKey } from "../../src/placement/types.ts";
import type { SimulatedService } from "./services.ts";
import type { World } from "./world.ts";

/** Rounding of sums, not more. */
const SLACK_BYTES = 1;

interface Kept {
  readonly nominatedBytes: ReadonlyMap<string, number>;
  /** Slots that room is being made for: they have what they can get. */
  readonly nominees: ReadonlySet<string>;
  readonly held: ReadonlyMap<string, string>;
}

/** Throws at the first host or slot that breaks a rule; looks at these hosts only, or at all. */
export function checkInvariants(
  world: World,
  nowMs: number,
  among: Iterable<string> = world.hosts.keys(),
): void {
  const kept = keptRoom(world);
  const waiting = waitingServices(world).filter(({ name, slots }) =>
    slots.some(
      ({ at }, ordinal) => at === "empty" && !kept.nominees.has(slotKey({ service: name, ordinal })),
    ),
  );
  for (const host of among) {
    checkBudget(world, host);
    if (!kept.held.has(host)) checkHost(world, host, waiting, kept, nowMs);
  }
}

/** By effective priority, then age; and the first is told that he is the first. */
export function checkQueue(world: World, nowMs: number): void {
  let before: SimulatedService | undefined;
  for (const service of waitingServices(world)) {
    if (before !== undefined && comesBefore(service, before, nowMs))
      throw new Error(`${service.name} has to wait behind ${before.name}`);
    before = service;
  }
  const [first] = world.board.waiters();
  if (first === undefined) return;
  const position = world.board.answers(first, nowMs).waiting[0]?.queuePosition;
  if (position !== 1) throw new Error(`${first} is next and is told ${position}`);
}

function comesBefore(a: SimulatedService, b: SimulatedService, nowMs: number): boolean {
  const difference = effectivePriority(a, nowMs) - effectivePriority(b, nowMs);
  return difference > 0 || (difference === 0 && a.createdMs < b.createdMs);
}

function effectivePriority({ priority, waitingSinceMs }: SimulatedService, nowMs: number): number {
  return agedPriority(PRIORITIES[priority], nowMs - (waitingSinceMs ?? nowMs));
}

function checkBudget(world: World, host: string): void {
  const { budget } = world.hosts.get(host)?.facts ?? { budget: { known: false, why: "" } };
  const claims = claimsOn(world, host);
  const claimed = claims.reduce((sum, { bytes }) => sum + bytes, 0);
  if (budget.known && claimed > budget.bytes + SLACK_BYTES)
    throw new Error(`${host} is over its budget: ${claimed} of ${budget.bytes} bytes`);
}

/** Nobody waits for what is there, or for what a lower priority holds. */
function checkHost(
  world: World,
  host: string,
  waiting: readonly SimulatedService[],
  { nominatedBytes }: Kept,
  nowMs: number,
): void {
  const { budget } = world.hosts.get(host)?.facts ?? { budget: { known: false, why: "" } };
  if (!budget.known) return;
  const claims = claimsOn(world, host);
  const nominated = nominatedBytes.get(host) ?? 0;
  const staying = claims.filter(({ leaving }) => leaving === undefined);
  const claimed = claims.reduce((sum, { bytes }) => sum + bytes, 0);
  const leaving = claimed - staying.reduce((sum, { bytes }) => sum + bytes, 0);
  // What is leaving serves the nominees first.
  const open = budget.bytes - claimed - Math.max(0, nominated - leaving);
  for (const service of waiting) {
    const priority = PRIORITIES[service.priority];
    const needs = service.bytes + SLACK_BYTES;
    if (open >= needs && isSuitable(world, service, host, nowMs))
      throw new Error(
        `${service.name} waits although ${host} has ${open} bytes of the ${service.bytes} it needs`,
      );
    const takeable = takeableBytes(staying, priority, nowMs);
    if (takeable === 0 || budget.bytes - claimed + leaving - nominated + takeable < needs) continue;
    if (isSuitable(world, service, host, nowMs))
      throw new Error(`${service.name} (${service.priority}) waits although it may take a place on ${host}`);
  }
}

function takeableBytes(staying: readonly HostClaim[], priority: number, nowMs: number): number {
  let bytes = 0;
  for (const claim of staying) if (defence(claim, nowMs) < priority) bytes += claim.bytes;
  return bytes;
}

function isSuitable(world: World, service: SimulatedService, host: string, nowMs: number): boolean {
  const facts = world.hosts.get(host)?.facts;
  if (facts === undefined || facts.reachable.status !== "True" || facts.isLost) return false;
  if (!facts.runtimes.includes(service.model.runtime)) return false;
  if (!selectorMatches(service.choice.hostSelector, facts.labels)) return false;
  if (service.refusals.some((refusal) => refusal.host === host && nowMs - refusal.atMs < 600_000))
    return false;
  const hasSibling = claimsOn(world, host).some((claim) => claim.service === service.name);
  return !(service.choice.spread === "Required" && hasSibling);
}

function defence({ eviction }: HostClaim, nowMs: number): number {
  if (eviction === undefined) return Number.POSITIVE_INFINITY;
  const earned =
    eviction.earned !== undefined && nowMs < eviction.earned.untilMs ? eviction.earned.priority : 0;
  return Math.max(eviction.priority, earned);
}

function keptRoom(world: World): Kept {
  const nominatedBytes = new Map<string, number>();
  const nominees = new Set<string>();
  const held = new Map<string, string>();
  for (const { host, slot, why } of world.board.reservations()) {
    if (why === "held") {
      held.set(host, slot);
      continue;
    }
    nominees.add(slot);
    const bytes = world.services.get(slot.slice(0, slot.lastIndexOf("/")))?.bytes ?? 0;
    nominatedBytes.set(host, (nominatedBytes.get(host) ?? 0) + bytes);
  }
  return { nominatedBytes, nominees, held };
}

function claimsOn(world: World, host: string): HostClaim[] {
  return [...(world.onHost.get(host) ?? [])].flatMap((replica) => world.replicas.get(replica)?.claim ?? []);
}

function waitingServices(world: World): SimulatedService[] {
  return world.board.waiters().flatMap((name) => world.services.get(name) ?? []);
}
