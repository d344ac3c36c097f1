/** What must hold at every moment, worked out from the world itself and not from the board's sums. */
import { selectorMatches } from "../../src/api/fields/kubernetes.ts";
import { PRIORITIES } from "../../src/placement/priority.ts";
import { type HostClaim, slotKey } from "../../src/placement/types.ts";
import { demandsOf, type SimulatedService } from "./services.ts";
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
  const hosts = [...among];
  for (const host of hosts) checkBudget(world, host);
  const kept = keptRoom(world);
  for (const service of waitingServices(world)) {
    const open = demandsOf(service).filter((demand) => !kept.nominees.has(slotKey(demand)));
    if (open.length === 0) continue;
    for (const host of hosts) checkHost(world, service, host, kept, nowMs);
  }
}

/** In turn, without gaps: 1, 2, 3 … */
export function checkQueue(world: World, nowMs: number): void {
  for (const [index, name] of world.board.waiters().entries()) {
    const [first] = world.board.answers(name, nowMs).waiting;
    if (first?.queuePosition !== index + 1) {
      throw new Error(`${name} is number ${index + 1} and is told ${first?.queuePosition}`);
    }
  }
}

function checkBudget(world: World, host: string): void {
  const { budget } = world.hosts.get(host)?.facts ?? { budget: { known: false, why: "" } };
  const claims = claimsOn(world, host);
  const claimed = claims.reduce((sum, { bytes }) => sum + bytes, 0);
  if (budget.known && claimed > budget.bytes + SLACK_BYTES)
    throw new Error(`${host} is over its budget: ${claimed} of ${budget.bytes} bytes`);
}

function checkHost(world: World, service: SimulatedService, host: string, kept: Kept, nowMs: number): void {
  if (!isSuitable(world, service, host, nowMs) || kept.held.has(host)) return;
  const { budget } = world.hosts.get(host)?.facts ?? { budget: { known: false, why: "" } };
  if (!budget.known) return;
  const claims = claimsOn(world, host);
  let room = budget.bytes - (kept.nominatedBytes.get(host) ?? 0);
  let leaving = 0;
  let takeable = 0;
  for (const claim of claims) {
    room -= claim.bytes;
    if (claim.leaving !== undefined) leaving += claim.bytes;
    else if (defence(claim, nowMs) < PRIORITIES[service.priority]) takeable += claim.bytes;
  }
  // What is leaving serves the nominees first.
  const open = room + Math.min(leaving, kept.nominatedBytes.get(host) ?? 0);
  if (open - SLACK_BYTES >= service.bytes)
    throw new Error(
      `${service.name} waits although ${host} has ${open} bytes of the ${service.bytes} it needs`,
    );
  if (takeable > 0 && room + leaving + takeable - SLACK_BYTES >= service.bytes)
    throw new Error(`${service.name} (${service.priority}) waits although it may take a place on ${host}`);
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
