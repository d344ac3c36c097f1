/** The planner of placement: which host takes which slot, and for every slot without a host, why not. Pure and total. */
import { formatBytes } from "../bytes.ts";
import { type FilterContext, filters, missingBytes, REFUSAL_MS } from "./filters.ts";
import { rateHost } from "./scores.ts";
import type {
  Demand,
  HostClaim,
  HostFacts,
  Miss,
  Placed,
  PlacementInput,
  PlacementPlan,
  Unplaced,
} from "./types.ts";

const MAX_MISSES = 10;

/** What has been given away so far in this plan, claims that were there before included. */
interface Ledger {
  readonly bytes: Map<string, number>;
  readonly replicas: Map<string, number>;
  /** Where each replica is that there was before. */
  readonly hostOf: ReadonlyMap<string, string>;
}

/** A miss with what it is sorted by. */
interface RankedMiss extends Miss {
  readonly passed: number;
  readonly missing: number;
}

/**
 * Serves the demands by priority, then age, and gives each to the best host that passes every filter.
 * A demand that fits nowhere does not hold up smaller ones behind it. What runs already is never moved.
 */
export function planPlacement({ hosts, claims, demands }: PlacementInput, now: number): PlacementPlan {
  const ledger = openLedger(claims);
  const placed: Placed[] = [];
  const waiting: Unplaced[] = [];
  const stuck: Demand[] = [];
  const queue: string[] = [];
  for (const demand of [...demands].sort(byTurn)) {
    const outcome = placeOne(demand, hosts, ledger, now);
    if ("host" in outcome) {
      placed.push(outcome);
      record(ledger, demand.service, outcome.host, demand.memory.known ? demand.memory.bytes : 0);
      continue;
    }
    if (!queue.includes(demand.service)) queue.push(demand.service);
    stuck.push(demand);
    waiting.push(explain(demand, outcome.misses, queue.indexOf(demand.service) + 1));
  }
  const recheckAfterMs = soonestRefusalEnd(stuck, now);
  return recheckAfterMs === undefined ? { placed, waiting } : { placed, waiting, recheckAfterMs };
}

/** By priority (higher first), then age, then name and ordinal: the order is the same whatever the input's order. */
export function byTurn(a: Demand, b: Demand): number {
  return (
    b.priority - a.priority || a.since - b.since || compareText(a.service, b.service) || a.ordinal - b.ordinal
  );
}

function placeOne(
  demand: Demand,
  hosts: readonly HostFacts[],
  ledger: Ledger,
  now: number,
): Placed | { misses: RankedMiss[] } {
  const misses: RankedMiss[] = [];
  let best: { host: string; total: number; why: string } | undefined;
  for (const host of hosts) {
    const claimedBytes = ledger.bytes.get(host.name) ?? 0;
    const siblings = siblingsOn(host.name, demand, ledger);
    const miss = firstMiss(demand, host, { claimedBytes, siblings, now });
    if (miss !== undefined) {
      misses.push(miss);
      continue;
    }
    const { total, why } = rateHost(demand, host, { claimedBytes, siblings });
    if (best === undefined || total > best.total || (total === best.total && host.name < best.host)) {
      best = { host: host.name, total, why };
    }
  }
  if (best === undefined) return { misses };
  const { host, total, why } = best;
  return {
    service: demand.service,
    ordinal: demand.ordinal,
    host,
    score: Math.round(total * 100) / 100,
    why,
  };
}

function firstMiss(demand: Demand, host: HostFacts, context: FilterContext): RankedMiss | undefined {
  for (const [passed, { code, refuse }] of filters.entries()) {
    const message = refuse(demand, host, context);
    if (message !== undefined) {
      const missing = code === "HostMemoryShort" ? missingBytes(demand, host, context.claimedBytes) : 0;
      return { host: host.name, code, message, passed, missing };
    }
  }
  return undefined;
}

function explain(demand: Demand, misses: readonly RankedMiss[], queuePosition: number): Unplaced {
  const nearest = [...misses].sort(
    (a, b) => b.passed - a.passed || a.missing - b.missing || compareText(a.host, b.host),
  );
  const shown = nearest
    .slice(0, MAX_MISSES)
    .map(
      ({ host, code, message, missing }): Miss =>
        missing > 0 ? { host, code, message, shortBytes: missing } : { host, code, message },
    );
  const counts: Record<string, number> = {};
  for (const { code } of nearest) counts[code] = (counts[code] ?? 0) + 1;
  const first = nearest[0];
  const { code, waitingFor } = wants(demand, first);
  return {
    service: demand.service,
    ordinal: demand.ordinal,
    code,
    message: first === undefined ? "no host is registered" : sentence(shown, misses.length),
    queuePosition,
    waitingFor,
    misses: shown,
    counts,
  };
}

/** The nearest miss names what the demand waits for. */
function wants(
  { memory, runtime }: Demand,
  nearest: RankedMiss | undefined,
): Pick<Unplaced, "code" | "waitingFor"> {
  if (nearest === undefined) return { code: "NoHosts", waitingFor: "a host" };
  switch (nearest.code) {
    case "HostMemoryShort":
      return {
        code: "NoHostWithMemory",
        waitingFor: memory.known ? `${formatBytes(memory.bytes)} of memory` : "memory",
      };
    case "HostRuntimeMissing":
      return { code: "NoHostFits", waitingFor: `a host with ${runtime}` };
    case "HostNotNamed":
    case "HostNotSelected":
      return { code: "NoHostFits", waitingFor: "a host that spec.placement allows" };
    default:
      return { code: "NoHostFits", waitingFor: `host ${nearest.host}` };
  }
}

function sentence(shown: readonly Miss[], all: number): string {
  const listed = shown.map(({ host, message }) => `${host}: ${message}`).join("; ");
  return all > shown.length ? `${listed}; and ${all - shown.length} more` : listed;
}

function soonestRefusalEnd(demands: readonly Demand[], now: number): number | undefined {
  const ends = demands
    .flatMap(({ refusals }) => refusals.map(({ atMs }) => atMs + REFUSAL_MS - now))
    .filter((inMs) => inMs > 0);
  return ends.length === 0 ? undefined : Math.min(...ends);
}

/** Whoever holds the same slot makes way for the new one, and is none. */
function siblingsOn(host: string, { service, predecessors }: Demand, ledger: Ledger): number {
  const all = ledger.replicas.get(siblingKey(service, host)) ?? 0;
  return all - predecessors.filter(({ replica }) => ledger.hostOf.get(replica) === host).length;
}

function openLedger(claims: readonly HostClaim[]): Ledger {
  const hostOf = new Map(claims.map(({ replica, host }) => [replica, host]));
  const ledger: Ledger = { bytes: new Map(), replicas: new Map(), hostOf };
  for (const { service, host, bytes } of claims) record(ledger, service, host, bytes);
  return ledger;
}

function record({ bytes, replicas }: Ledger, service: string, host: string, amount: number): void {
  bytes.set(host, (bytes.get(host) ?? 0) + amount);
  const key = siblingKey(service, host);
  replicas.set(key, (replicas.get(key) ?? 0) + 1);
}

function siblingKey(service: string, host: string): string {
  return `${service} ${host}`;
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
