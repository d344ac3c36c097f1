/** For each host, whether a slot would fit there now: memory left, replicas to preempt, changes that make it fit. Pure. */

import type { ErrorCode } from "../../api/errors.ts";
import { compareText } from "../../util/text.ts";
import type { SchedulerCache } from "../placement/scheduler/cache.ts";
import { newCache, setClaim, setHost } from "../placement/scheduler/cache.ts";
import { missingRuntimeText, placementMissOf } from "../placement/scheduler/explain.ts";
import { freeFor, type HostInfo } from "../placement/scheduler/host-info.ts";
import { findCandidate } from "../placement/scheduler/preempt.ts";
import { newSlot, type PendingSlot } from "../placement/scheduler/queue.ts";
import { findHostFor, isAllowed } from "../placement/scheduler/search.ts";
import { type Demand, type HostClaim, type HostFacts, needBytes } from "../placement/types.ts";
import { type ClaimWith, type SizeSettings, type Suggestion, suggestFor } from "./variants.ts";

export interface FitInput {
  readonly hosts: readonly HostFacts[];
  readonly claims: readonly HostClaim[];
  readonly demand: Demand;
  readonly settings: SizeSettings;
  readonly claimWith: ClaimWith;
}

export interface ReplicaEviction {
  readonly service: string;
  readonly replica: string;
  readonly bytes: number;
}

export interface HostFit {
  readonly host: string;
  /** unknown: there is room, but only the host can read how much the model needs. */
  readonly fits: boolean | "unknown";
  /** What it would claim on this host. */
  readonly claimBytes?: number;
  /** What its engines may still claim, and of how much; absent where the host has not said. */
  readonly leftBytes?: number;
  readonly budgetBytes?: number;
  /** Why not, where it does not fit. */
  readonly code?: ErrorCode;
  readonly message?: string;
  /** Replicas it would preempt; absent if there are none, or none have to go. */
  readonly evicts?: readonly ReplicaEviction[];
  /** What would make it fit beside what runs there; for the nearest misses only. */
  readonly helps?: readonly Suggestion[];
  /** What would if nothing else ran there, where not even then it fits as it is. */
  readonly helpsWhenEmpty?: readonly Suggestion[];
}

export interface FitReport {
  /** Where it would go now. */
  readonly choice?: { readonly host: string; readonly score: number; readonly why: string };
  /** That no host has the runtime, and how to install it. */
  readonly missing?: string;
  /** By how near they are: hosts that fit, then by the bytes that are missing. */
  readonly hosts: readonly HostFit[];
}

/** Suggestions for one host cost some hundred claims. */
const MAX_HELPED = 10;

/** Ignores other pending slots: the report says what fits, not whose turn it is. */
export function explainFit(input: FitInput, now: number): FitReport {
  const cache = newCache();
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
    ...(budget.known ? { leftBytes: Math.max(0, room), budgetBytes: budget.bytes } : {}),
  };
  const miss = placementMissOf(info, slot, now);
  if (miss === undefined) return { host: info.name, fits: isClaimKnown || "unknown", ...known };
  const no = { host: info.name, fits: false, ...known, code: miss.code, message: miss.message };
  // Where something else stands in the way, no smaller claim helps.
  if (!budget.known || !isAllowed(info, slot, now)) return no;
  const victims = findCandidate(cache, slot, now, [info.name])?.victims ?? [];
  const evicts = victims.map(({ service, replica, bytes }) => ({ service, replica, bytes }));
  return evicts.length === 0 ? no : { ...no, evicts };
}

function helpOn(
  info: HostInfo,
  slot: PendingSlot,
  { settings, claimWith }: FitInput,
): Pick<HostFit, "helps" | "helpsWhenEmpty"> {
  const { budget } = info.facts;
  const helps = suggestFor(freeFor(info, slot), settings, claimWith, info.facts);
  const helpsWhenEmpty =
    helps.length > 0 || !budget.known || fitsEmpty(slot, info)
      ? []
      : suggestFor(budget.bytes, settings, claimWith, info.facts);
  return {
    helps: helps.length === 0 ? undefined : helps,
    helpsWhenEmpty: helpsWhenEmpty.length === 0 ? undefined : helpsWhenEmpty,
  };
}

function fitsEmpty({ demand }: PendingSlot, { facts }: HostInfo): boolean {
  return facts.budget.known && needBytes(demand, facts) <= facts.budget.bytes;
}

function byNearness(a: HostFit, b: HostFit): number {
  if (a.fits !== b.fits) return a.fits === false ? 1 : -1;
  const isShortA = a.code === "HostMemoryShort";
  if (isShortA !== (b.code === "HostMemoryShort")) return isShortA ? -1 : 1;
  return (b.leftBytes ?? 0) - (a.leftBytes ?? 0) || compareText(a.host, b.host);
}
