/** For each host whether and how a slot would fit there now: what is left, who would make way, and what would make it fit. Pure. */

import type { ErrorCode } from "../../errors.ts";
import { type Cell, roomFor } from "../board/cell.ts";
import { missOf } from "../board/explain.ts";
import { type Floor, newFloor, putClaim, putHost } from "../board/floor.ts";
import { findTakeover } from "../board/preempt.ts";
import { findHost, isAllowed } from "../board/search.ts";
import { newWaiter, type Waiter } from "../board/waiter.ts";
import type { Demand, HostClaim, HostFacts } from "../types.ts";
import { type ClaimWith, type Sizes, type Suggestion, suggestFor } from "./variants.ts";

export interface FitInput {
  readonly hosts: readonly HostFacts[];
  readonly claims: readonly HostClaim[];
  readonly demand: Demand;
  readonly settings: Sizes;
  readonly claimWith: ClaimWith;
}

export interface Eviction {
  readonly service: string;
  readonly replica: string;
  readonly bytes: number;
}

export interface HostFit {
  readonly host: string;
  readonly fits: boolean;
  /** What its engines may still claim, and of how much; absent where the host has not said. */
  readonly leftBytes?: number;
  readonly budgetBytes?: number;
  /** Why not, where it does not fit. */
  readonly code?: ErrorCode;
  readonly message?: string;
  /** Who would make way for it; absent where nobody would or has to. */
  readonly evicts?: readonly Eviction[];
  /** What would make it fit beside what runs there. */
  readonly helps?: readonly Suggestion[];
  /** What would if nothing else ran there, where not even then it fits as it is. */
  readonly helpsWhenEmpty?: readonly Suggestion[];
}

export interface FitReport {
  /** Where it would go now. */
  readonly choice?: { readonly host: string; readonly score: number; readonly why: string };
  /** By how near they are: hosts that fit, then by the bytes that are missing. */
  readonly hosts: readonly HostFit[];
}

/** Others that wait are not looked at: it tells what fits, not whose turn it is. */
export function explainFit(input: FitInput, now: number): FitReport {
  const floor = newFloor();
  for (const host of input.hosts) putHost(floor, host);
  for (const claim of input.claims) putClaim(floor, claim);
  const waiter = newWaiter(input.demand, now);
  const hosts = [...floor.cells.values()].map((cell) => fitOn(floor, cell, waiter, input, now));
  const choice = findHost(floor, waiter, now);
  const sorted = hosts.sort(byNearness);
  if (choice === undefined) return { hosts: sorted };
  return { choice: { host: choice.host, score: choice.score, why: choice.why }, hosts: sorted };
}

function fitOn(floor: Floor, cell: Cell, waiter: Waiter, input: FitInput, now: number): HostFit {
  const { budget } = cell.facts;
  const room = roomFor(cell, waiter);
  const known = budget.known ? { leftBytes: Math.max(0, room), budgetBytes: budget.bytes } : {};
  const miss = missOf(floor, cell, waiter, now);
  if (miss === undefined) return { host: cell.name, fits: true, ...known };
  const no = { host: cell.name, fits: false, ...known, code: miss.code, message: miss.message };
  // Where something else stands in the way, no smaller claim helps.
  if (!budget.known || !isAllowed(floor, cell, waiter, now)) return no;
  const victims = findTakeover(floor, waiter, now, [cell.name])?.victims ?? [];
  const evicts = victims.map(({ service, replica, bytes }) => ({ service, replica, bytes }));
  const helps = suggestFor(room, input.settings, input.claimWith);
  const helpsWhenEmpty =
    helps.length > 0 || fitsEmpty(waiter, cell)
      ? []
      : suggestFor(budget.bytes, input.settings, input.claimWith);
  return {
    ...no,
    ...(evicts.length === 0 ? {} : { evicts }),
    ...(helps.length === 0 ? {} : { helps }),
    ...(helpsWhenEmpty.length === 0 ? {} : { helpsWhenEmpty }),
  };
}

function fitsEmpty({ bytes }: Waiter, { facts }: Cell): boolean {
  return facts.budget.known && bytes <= facts.budget.bytes;
}

function byNearness(a: HostFit, b: HostFit): number {
  if (a.fits !== b.fits) return a.fits ? -1 : 1;
  const isShortA = a.code === "HostMemoryShort";
  if (isShortA !== (b.code === "HostMemoryShort")) return isShortA ? -1 : 1;
  return (b.leftBytes ?? 0) - (a.leftBytes ?? 0) || (a.host < b.host ? -1 : 1);
}
