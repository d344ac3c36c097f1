/** Invariants of the simulated day, computed from the world itself, not from the scheduler's sums. */
import { selectorMatches } from "../../src/api/fields/kubernetes.ts";
import { agedPriority, PRIORITIES } from "../../src/capacity/placement/priority.ts";
import type { HostClaim } from "../../src/capacity/placement/types.ts";
import type { SimulatedService } from "./services.ts";
import type { World } from "./world.ts";

/** Rounding of sums, not more. */
const SLACK_BYTES = 1;

interface Kept {
  readonly nominatedBytes: ReadonlyMap<string, number>;
  /** Services with a slot that room is being made for, and how many: those have what they can get. */
  readonly nominees: ReadonlyMap<string, number>;
  readonly held: ReadonlyMap<string, string>;
}

/** Throws at the first host or slot that breaks a rule; checks these hosts only, or all. */
export function checkInvariants(
  world: World,
  nowMs: number,
  among: Iterable<string> = world.hosts.keys(),
): void {
  const kept = keptRoom(world);
  const waiting = byPriority(
    waitingServices(world).filter(
      ({ name, slots }) => slots.filter(({ at }) => at === "empty").length > (kept.nominees.get(name) ?? 0),
    ),
  );
  for (const host of among) {
    checkBudget(world, host);
    if (!kept.held.has(host)) checkHost(world, host, waiting, kept, nowMs);
  }
}

/** Services of one priority that wait, the smallest first. */
interface WaitingClass {
  readonly priority: number;
  readonly services: readonly SimulatedService[];
}

/** A host that is too small for the smallest of a class is too small for all of it. */
function byPriority(waiting: readonly SimulatedService[]): readonly WaitingClass[] {
  return Object.entries(PRIORITIES).map(([name, priority]) => ({
    priority,
    services: waiting.filter((service) => service.priority === name).sort((a, b) => a.bytes - b.bytes),
  }));
}

/** By effective priority, then age; and the first has position 1. */
export function checkQueue(world: World, nowMs: number): void {
  let before: SimulatedService | undefined;
  for (const service of waitingServices(world)) {
    if (before !== undefined && comesBefore(service, before, nowMs))
      throw new Error(`${service.name} has to wait behind ${before.name}`);
    before = service;
  }
  const [first] = world.scheduler.pending();
  if (first === undefined) return;
  const position = world.scheduler.answers(first, nowMs).waiting[0]?.queuePosition;
  if (position !== 1) throw new Error(`${first} is next and has position ${position}`);
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
    throw new Error(`${host} exceeds its budget: ${claimed} of ${budget.bytes} bytes`);
}

/** No slot waits for free memory, or for memory that a lower priority holds. */
function checkHost(
  world: World,
  host: string,
  waiting: readonly WaitingClass[],
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
  for (const { priority, services } of waiting) {
    const takeable = takeableBytes(staying, priority, nowMs);
    const afterTaking = takeable === 0 ? open : budget.bytes - claimed + leaving - nominated + takeable;
    const queued = firstThatFits(world, host, services, Math.max(open, afterTaking), nowMs);
    if (queued === undefined) continue;
    const what = queued.bytes < open ? `has ${open} bytes` : "runs what it may preempt";
    throw new Error(
      `${queued.name} (${queued.priority}, ${queued.bytes} bytes) waits although ${host} ${what}`,
    );
  }
}

/** Tries services from the smallest to the largest. */
function firstThatFits(
  world: World,
  host: string,
  services: readonly SimulatedService[],
  roomBytes: number,
  nowMs: number,
): SimulatedService | undefined {
  for (const service of services) {
    if (service.bytes + SLACK_BYTES > roomBytes) return undefined;
    if (isSuitable(world, service, host, nowMs)) return service;
  }
  return undefined;
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
  const nominees = new Map<string, number>();
  const held = new Map<string, string>();
  for (const { host, slot, why } of world.scheduler.reservations()) {
    if (why === "reserved") {
      held.set(host, slot);
      continue;
    }
    const service = slot.slice(0, slot.lastIndexOf("/"));
    nominees.set(service, (nominees.get(service) ?? 0) + 1);
    const bytes = world.services.get(service)?.bytes ?? 0;
    nominatedBytes.set(host, (nominatedBytes.get(host) ?? 0) + bytes);
  }
  return { nominatedBytes, nominees, held };
}

function claimsOn(world: World, host: string): HostClaim[] {
  return [...(world.onHost.get(host) ?? [])].flatMap((replica) => world.replicas.get(replica)?.claim ?? []);
}

function waitingServices(world: World): SimulatedService[] {
  return world.scheduler.pending().flatMap((name) => world.services.get(name) ?? []);
}
