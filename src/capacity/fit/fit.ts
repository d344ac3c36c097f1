/** Determines for each host whether a slot fits now: free memory, replicas to preempt, and changes that make it fit. Pure. */

import type { ErrorCode } from "../../api/errors.ts";
import { compareText } from "../../util/text.ts";
import { newCache, type SchedulerCache, setClaim, setHost } from "../placement/scheduler/cache.ts";
import { missingRuntimeText, placementMissOf } from "../placement/scheduler/explain.ts";
import { freeFor, type HostInfo } from "../placement/scheduler/host-info.ts";
import { findCandidate } from "../placement/scheduler/preempt.ts";
import { newSlot, type PendingSlot } from "../placement/scheduler/queue.ts";
import { findHostFor, isAllowed, machineScoreOf, type ScoredHost } from "../placement/scheduler/search.ts";
import { type Demand, type HostClaim, type HostFacts, needBytes } from "../placement/types.ts";
import type { ScoreWeights } from "../score.ts";
import { type ClaimWith, type SizeSettings, type Suggestion, suggestFor } from "./variants.ts";

export interface FitInput {
  readonly hosts: readonly HostFacts[];
  readonly claims: readonly HostClaim[];
  readonly demand: Demand;
  readonly settings: SizeSettings;
  readonly claimWith: ClaimWith;
  /** Weights of the score of machines; defaults to those of the controller. */
  readonly scoreWeights?: ScoreWeights | undefined;
}

export interface ReplicaEviction {
  readonly service: string;
  readonly replica: string;
  readonly bytes: number;
}

export interface HostFit {
  readonly host: string;
  /** unknown: the host has free memory, but only the host can determine how much the model needs. */
  readonly fits: boolean | "unknown";
  /** Claim on this host. */
  readonly claimBytes?: number;
  /** Free part and total of the memory budget; absent if the host has not reported it. */
  readonly leftBytes?: number;
  readonly budgetBytes?: number;
  /** Reason if the slot does not fit. */
  readonly code?: ErrorCode;
  readonly message?: string;
  /** Replicas to preempt, if any. */
  readonly evicts?: readonly ReplicaEviction[];
  /** Changes with which the slot fits in addition to the current claims; for the nearest misses only. */
  readonly helps?: readonly Suggestion[];
  /** Changes with which the slot fits on the empty host, if it does not fit there as it is. */
  readonly helpsWhenEmpty?: readonly Suggestion[];
  /** The score of the host by speed, utilization and cost, and its inputs. */
  readonly machine: ScoredHost;
}

export interface FitReport {
  /** The host that would be chosen now. */
  readonly choice?: { readonly host: string; readonly score: number; readonly why: string };
  /** Message that no host has the runtime, with the install command. */
  readonly missing?: string;
  /** Hosts that fit first, then by missing bytes. */
  readonly hosts: readonly HostFit[];
}

/** Suggestions for a host calculate several hundred claims. */
const MAX_HELPED = 10;

/** Ignores other pending slots: the report shows where the slot fits, not when it is scheduled. */
export function explainFit(input: FitInput, now: number): FitReport {
  const cache = newCache(input.scoreWeights);
  for (const host of input.hosts) setHost(cache, host);
  for (const claim of input.claims) setClaim(cache, claim);
  const slot = newSlot(input.demand, now);
  const sorted = [...cache.hosts.values()].map((info) => fitOn(cache, info, slot, now)).sort(byNearness);
  const nearest = new Set(sorted.filter(({ code }) => code === "HostMemoryShort").slice(0, MAX_HELPED));
  const hosts = sorted.map((fit) => {
    const info = nearest.has(fit) ? cache.hosts.get(fit.host) : undefined;
    return info === undefined ? fit : { ...fit, ...helpOn(info, slot, input) };
  });
  const choice = findHostFor(cache, slot, now);
  const missing = missingRuntimeText(cache, input.demand);
  if (choice === undefined) return { missing, hosts };
  return { choice: { host: choice.host, score: choice.score, why: choice.why }, hosts };
}

function fitOn(cache: SchedulerCache, info: HostInfo, slot: PendingSlot, now: number): HostFit {
  const { budget } = info.facts;
  const room = freeFor(info, slot);
  const isClaimKnown = slot.demand.memory.known;
  const known = {
    claimBytes: isClaimKnown ? needBytes(slot.demand, info.facts) : undefined,
    machine: machineScoreOf(cache, slot.demand, info),
    ...(budget.known ? { leftBytes: Math.max(0, room), budgetBytes: budget.bytes } : {}),
  };
  const miss = placementMissOf(info, slot, now);
  if (miss === undefined) return { host: info.name, fits: isClaimKnown || "unknown", ...known };
  const unfit = { host: info.name, fits: false, ...known, code: miss.code, message: miss.message };
  // A smaller claim does not help if something other than memory rejects the slot.
  if (!budget.known || !isAllowed(info, slot, now)) return unfit;
  const victims = findCandidate(cache, slot, now, [info.name])?.victims ?? [];
  const evicts = victims.map(({ service, replica, bytes }) => ({ service, replica, bytes }));
  return evicts.length === 0 ? unfit : { ...unfit, evicts };
}

function helpOn(
  info: HostInfo,
  slot: PendingSlot,
  { settings, claimWith }: FitInput,
): Pick<HostFit, "helps" | "helpsWhenEmpty"> {
  const { budget } = info.facts;
  const suggest = (freeBytes: number) => {
    const suggestions = suggestFor(freeBytes, settings, claimWith, info.facts);
    return suggestions.length === 0 ? undefined : suggestions;
  };
  const helps = suggest(freeFor(info, slot));
  const fitsWhenEmpty = budget.known && needBytes(slot.demand, info.facts) <= budget.bytes;
  const needsMore = helps === undefined && budget.known && !fitsWhenEmpty;
  return { helps, helpsWhenEmpty: needsMore ? suggest(budget.bytes) : undefined };
}

function byNearness(a: HostFit, b: HostFit): number {
  if (a.fits !== b.fits) return a.fits === false ? 1 : -1;
  const isShortA = a.code === "HostMemoryShort";
  if (isShortA !== (b.code === "HostMemoryShort")) return isShortA ? -1 : 1;
  return (b.leftBytes ?? 0) - (a.leftBytes ?? 0) || compareText(a.host, b.host);
}
