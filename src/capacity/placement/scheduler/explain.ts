/** Explains why a slot has no host: the nearest misses with their numbers, and the number of hosts per reason. */

import type { ErrorCode } from "../../../api/errors.ts";
import { backendOfEntry } from "../../../engines/generic/backend-entry.ts";
import { installHintOf } from "../../../engines/registry.ts";
import { formatBytes } from "../../../util/bytes.ts";
import { compareText } from "../../../util/text.ts";
import {
  type FilterRefusal,
  filters,
  firstRefusal,
  isAllowedBy,
  memoryShortageText,
  missingBytes,
} from "../filters.ts";
import type { Demand, PlacementMiss, Unplaced } from "../types.ts";
import type { SchedulerCache } from "./cache.ts";
import { freeFor, type HostInfo, isClaimLeaving, siblingsOn } from "./host-info.ts";
import type { PendingSlot } from "./queue.ts";
import { isReservedAgainst } from "./search.ts";

const MAX_MISSES = 10;

/** A miss with its sort keys; without a message if memory is insufficient. */
interface RankedMiss extends FilterRefusal {
  readonly info: HostInfo;
  readonly missing: number;
}

export function explain(
  cache: SchedulerCache,
  slot: PendingSlot,
  queuePosition: number,
  now: number,
): Unplaced {
  const { demand } = slot;
  const ranked: RankedMiss[] = [];
  const counts: Record<string, number> = {};
  for (const info of cache.hosts.values()) {
    const miss = rankMiss(info, slot, now);
    if (miss !== undefined) ranked.push(miss);
  }
  ranked.sort(
    (a, b) => b.passed - a.passed || a.missing - b.missing || compareText(a.info.name, b.info.name),
  );
  for (const { code } of ranked) counts[code] = (counts[code] ?? 0) + 1;
  const misses = ranked.slice(0, MAX_MISSES).map((miss) => describeMiss(miss, slot));
  const summary = summarize(cache, slot, misses[0], listMisses(misses, ranked.length));
  return { service: demand.service, ordinal: demand.ordinal, ...summary, queuePosition, misses, counts };
}

/** The reason why a host cannot run the slot now; undefined if it can. */
export function placementMissOf(info: HostInfo, slot: PendingSlot, now: number): PlacementMiss | undefined {
  const miss = rankMiss(info, slot, now);
  return miss && describeMiss(miss, slot);
}

function reservationText({ reservedFor: slot }: HostInfo, now: number): string | undefined {
  if (slot === undefined) return undefined;
  return `${slot.demand.service} (queued for ${Math.floor((now - slot.pendingSinceMs) / 60_000)} min)`;
}

function rankMiss(info: HostInfo, slot: PendingSlot, now: number): RankedMiss | undefined {
  const { demand } = slot;
  const reservedFor = isReservedAgainst(info, slot) ? reservationText(info, now) : undefined;
  const siblings = demand.choice.spread === "Required" ? siblingsOn(info, demand) : 0;
  const context = { siblings, now, reservedFor };
  const refused = earlier(info.refused, firstRefusal("slot", demand, info.facts, context));
  if (refused !== undefined) return { ...refused, info, missing: 0 };
  const missing = missingBytes(demand, info.facts, freeFor(info, slot));
  if (missing === 0) return undefined;
  return { code: "HostMemoryShort", message: "", passed: filters.length, info, missing };
}

/** Called only for the misses that are shown. */
function describeMiss({ info, code, message, missing }: RankedMiss, slot: PendingSlot): PlacementMiss {
  const host = info.name;
  if (code !== "HostMemoryShort") return { host, code, message };
  const words = memoryShortageText(slot.demand, info.facts, freeFor(info, slot));
  return { host, code, message: words, shortBytes: missing };
}

function earlier(a: FilterRefusal | undefined, b: FilterRefusal | undefined): FilterRefusal | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a.passed < b.passed ? a : b;
}

/** The first reason that applies: the slot preempts, it was preempted, or the nearest miss lacks something. */
function summarize(
  cache: SchedulerCache,
  { demand, decision }: PendingSlot,
  nearest: PlacementMiss | undefined,
  listed: string,
): Pick<Unplaced, "code" | "message" | "waitingFor"> {
  if (decision.at === "nominated") {
    const from = leavingOn(cache, decision.host);
    if (from.length === 0) return untilAdmitted(decision.host);
    return {
      code: "MakingRoom",
      message: `preempts ${from.join(", ")} on ${decision.host} once ${from.length === 1 ? `${from[0]} has` : "they have"} stopped`,
      waitingFor: `room on ${decision.host}`,
    };
  }
  const { code, waitingFor } = missingFor(demand, nearest);
  const nowhere = missingRuntimeText(cache, demand);
  const why = nowhere === undefined ? listed : `${nowhere}; ${listed}`;
  if (demand.preempted === undefined)
    return { code: nowhere === undefined ? code : missingCode(demand), message: why, waitingFor };
  const { by, host } = demand.preempted;
  const message = `preempted on ${host} by ${by}, which has a higher priority; ${why}`;
  return { code: "Preempted", message, waitingFor };
}

/** The claim fits on the host, but other programs or an engine that just stopped still use the memory. */
function untilAdmitted(host: string): Pick<Unplaced, "code" | "message" | "waitingFor"> {
  return {
    code: "NoHostWithMemory",
    message: `${host} has room for the claim; its agent admits the replica once that much memory is free`,
    waitingFor: `memory on ${host}`,
  };
}

/** Message that no allowed host has the runtime, with the install command; undefined if a host has it. */
export function missingRuntimeText(cache: SchedulerCache, demand: Demand): string | undefined {
  const { choice, runtime, install = installHintOf(runtime) } = demand;
  let isAnyAllowed = false;
  for (const { facts } of cache.hosts.values()) {
    if (facts.isAwaited === true || !isAllowedBy(choice, facts)) continue;
    if (facts.runtimes.includes(runtime)) return undefined;
    isAnyAllowed = true;
  }
  if (!isAnyAllowed) return undefined;
  const hint = install === undefined ? "" : ` (install: ${install})`;
  const backend = backendOfEntry(runtime);
  if (backend === undefined) return `no host has ${runtime}${hint}`;
  return `no host allows BackendRuntime ${backend}; install its program on a host${hint}, set backends.${backend}.path in the agent's configuration to its path, and restart the agent`;
}

function missingCode({ runtime }: Demand): ErrorCode {
  return backendOfEntry(runtime) === undefined ? "HostRuntimeMissing" : "BackendNotAllowed";
}

function leavingOn(cache: SchedulerCache, host: string): string[] {
  const info = cache.hosts.get(host);
  if (info === undefined) return [];
  const leaving = [...info.claims.values()].filter((claim) => isClaimLeaving(info, claim));
  return [...new Set(leaving.map(({ service }) => service))].sort(compareText);
}

/** Derives from the nearest miss what the demand is waiting for. */
function missingFor(
  { memory, runtime }: Demand,
  nearest: PlacementMiss | undefined,
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
    case "BackendNotAllowed":
      return {
        code: "BackendNotAllowed",
        waitingFor: `a host that allows BackendRuntime ${backendOfEntry(runtime)}`,
      };
    case "HostNotSealed":
      return { code: "HostNotSealed", waitingFor: `a certificate of host ${nearest.host}` };
    case "HostNeverSeen":
      return { code: "NoHosts", waitingFor: `host ${nearest.host} to join` };
    case "HostNotNamed":
    case "HostNotSelected":
      return { code: "NoHostFits", waitingFor: "a host that spec.placement allows" };
    case "HostCordoned":
      return { code: "HostCordoned", waitingFor: `host ${nearest.host} to be uncordoned` };
    case "HostBeyondLimit":
      return { code: "NoHostFits", waitingFor: "a smaller claim, or a higher limit in its Model" };
    default:
      return { code: "NoHostFits", waitingFor: `host ${nearest.host}` };
  }
}

function listMisses(shown: readonly PlacementMiss[], all: number): string {
  if (all === 0) return "no host is registered";
  const listed = shown.map(({ host, message }) => `${host}: ${message}`).join("; ");
  return all > shown.length ? `${listed}; and ${all - shown.length} more` : listed;
}
