/** Why a slot has no host: the nearest misses first, each with its figures, and how many hosts fail for which reason. */
import { formatBytes } from "../../bytes.ts";
import type { ErrorCode } from "../../errors.ts";
import { type FilterContext, filters, missingBytes } from "../filters.ts";
import type { Miss, Unplaced } from "../types.ts";
import { type Cell, firstRefusal, type Refused, refusedByChoice, roomFor } from "./cell.ts";
import type { Floor } from "./floor.ts";
import { isHeldAgainst, siblingsOn } from "./search.ts";
import { compareText, type Waiter } from "./waiter.ts";

const MAX_MISSES = 10;

/** A miss with what it is sorted by. */
interface RankedMiss extends Refused {
  readonly host: string;
  readonly missing: number;
}

export function explain(floor: Floor, waiter: Waiter, queuePosition: number, now: number): Unplaced {
  const { demand } = waiter;
  const nearest: RankedMiss[] = [];
  const counts: Record<string, number> = {};
  for (const cell of floor.cells.values()) {
    const miss = shortOf(cell, waiter) ?? missOf(floor, cell, waiter, now);
    if (miss !== undefined) nearest.push(miss);
  }
  nearest.sort((a, b) => b.passed - a.passed || a.missing - b.missing || compareText(a.host, b.host));
  for (const { code } of nearest) counts[code] = (counts[code] ?? 0) + 1;
  const misses = nearest
    .slice(0, MAX_MISSES)
    .map((miss) => (miss.message === "" ? inWords(floor, miss, waiter, now) : miss))
    .map(
      ({ host, code, message, missing }): Miss =>
        missing > 0 ? { host, code, message, shortBytes: missing } : { host, code, message },
    );
  const word = wordOf(floor, waiter, nearest[0], sentence(misses, nearest.length));
  return { service: demand.service, ordinal: demand.ordinal, ...word, queuePosition, misses, counts };
}

const LAST_FILTER = filters.length - 1;

/** The usual case without its sentence: of a thousand hosts ten are shown. */
function shortOf(cell: Cell, waiter: Waiter): RankedMiss | undefined {
  const { memory, choice, refusals, limit } = waiter.demand;
  const isPlain = choice.spread !== "Required" && refusals.length === 0 && limit === undefined;
  if (!isPlain || !memory.known || cell.refused !== undefined || !cell.facts.budget.known) return undefined;
  if (cell.heldFor !== undefined || cell.choices.get(waiter.choiceKey) !== null) return undefined;
  const missing = Math.ceil(memory.bytes - roomFor(cell, waiter));
  if (missing <= 0) return undefined;
  return { host: cell.name, code: "HostMemoryShort", message: "", passed: LAST_FILTER, missing };
}

function inWords(floor: Floor, miss: RankedMiss, waiter: Waiter, now: number): RankedMiss {
  const cell = floor.cells.get(miss.host);
  return (cell === undefined ? undefined : missOf(floor, cell, waiter, now)) ?? miss;
}

/** Why this one host cannot take it now; undefined where it can. */
export function missOf(floor: Floor, cell: Cell, waiter: Waiter, now: number): RankedMiss | undefined {
  const { demand } = waiter;
  const plain = earlier(cell.refused, refusedByChoice(cell, waiter));
  if (plain !== undefined) return { ...plain, host: cell.name, missing: 0 };
  const { budget } = cell.facts;
  const context: FilterContext = {
    claimedBytes: budget.known ? budget.bytes - roomFor(cell, waiter) : cell.claimedBytes,
    siblings: siblingsOn(floor, cell, demand),
    now,
    heldFor: isHeldAgainst(cell, waiter) ? cell.heldFor?.demand.service : undefined,
  };
  const refused = firstRefusal("pair", demand, cell.facts, context);
  if (refused === undefined) return undefined;
  const missing =
    refused.code === "HostMemoryShort" ? missingBytes(demand, cell.facts, context.claimedBytes) : 0;
  return { ...refused, host: cell.name, missing };
}

function earlier(a: Refused | undefined, b: Refused | undefined): Refused | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a.passed < b.passed ? a : b;
}

/** What is told first: that room is being made, that it made way, or what the nearest miss lacks. */
function wordOf(
  floor: Floor,
  { demand, decision }: Waiter,
  nearest: RankedMiss | undefined,
  listed: string,
): Pick<Unplaced, "code" | "message" | "waitingFor"> {
  if (decision.at === "nominated") {
    const from = leavingOn(floor, decision.host);
    if (from.length === 0) return untilLetIn(decision.host);
    return {
      code: "MakingRoom",
      message: `it takes the place of ${from.join(", ")} on ${decision.host} as soon as that has ended`,
      waitingFor: `room on ${decision.host}`,
    };
  }
  const { code, waitingFor } = wants(demand, nearest);
  if (demand.preempted === undefined) return { code, message: listed, waitingFor };
  const { by, host } = demand.preempted;
  const message = `${by} has a higher priority and took its place on ${host}; ${listed}`;
  return { code: "Preempted", message, waitingFor };
}

/** Its own host has room by what is claimed there; other programs, or what has just ended, have not left it yet. */
function untilLetIn(host: string): Pick<Unplaced, "code" | "message" | "waitingFor"> {
  return {
    code: "NoHostWithMemory",
    message: `${host} has room beside what is claimed there; its agent lets the replica in as soon as that much memory is free`,
    waitingFor: `memory on ${host}`,
  };
}

function leavingOn(floor: Floor, host: string): string[] {
  const cell = floor.cells.get(host);
  if (cell === undefined) return [];
  const leaving = [...cell.claims.values()].filter(
    ({ replica, leaving }) => leaving !== undefined || cell.orders.has(replica),
  );
  return [...new Set(leaving.map(({ service }) => service))].sort(compareText);
}

/** The nearest miss names what the demand waits for. */
function wants(
  { memory, runtime }: Waiter["demand"],
  nearest: RankedMiss | undefined,
): { code: ErrorCode; waitingFor: string } {
  if (nearest === undefined) return { code: "NoHosts", waitingFor: "a host" };
  switch (nearest.code) {
    case "HostMemoryShort":
    case "HostHeld":
      return {
        code: "NoHostWithMemory",
        waitingFor: memory.known ? `${formatBytes(memory.bytes)} of memory` : "memory",
      };
    case "HostRuntimeMissing":
      return { code: "NoHostFits", waitingFor: `a host with ${runtime}` };
    case "HostNotNamed":
    case "HostNotSelected":
      return { code: "NoHostFits", waitingFor: "a host that spec.placement allows" };
    case "HostBeyondLimit":
      return { code: "NoHostFits", waitingFor: "a smaller claim, or a higher limit of its Model" };
    default:
      return { code: "NoHostFits", waitingFor: `host ${nearest.host}` };
  }
}

function sentence(shown: readonly Miss[], all: number): string {
  if (all === 0) return "no host is registered";
  const listed = shown.map(({ host, message }) => `${host}: ${message}`).join("; ");
  return all > shown.length ? `${listed}; and ${all - shown.length} more` : listed;
}
