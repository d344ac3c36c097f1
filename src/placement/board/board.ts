/**
 * The board of placement: hosts, what they hold, and who waits, kept from one pass to the next.
 * A pass looks only at what has changed since: new demands, and hosts that may have more to give.
 * No clock and no effects: the same calls give the same answers.
 */
import type { Demand, HostClaim, HostFacts, Placed, Preemption, Unplaced } from "../types.ts";
import { setDemands, type Table } from "./decisions.ts";
import { explain } from "./explain.ts";
import { type Floor, newFloor, putClaim, putHost, removeClaim, removeHost } from "./floor.ts";
import { newLine, positionsOf, waitersOf } from "./line.ts";
import { runPass } from "./pass.ts";
import { hasRoom } from "./room.ts";

/** So many services at the head of the queue hear when figures or places have changed; the others when they are looked at again. */
const TOLD = 100;
/** And no more often than this, however much goes on. */
const TELL_MS = 5_000;

export interface PassResult {
  /** Slots that got a host in this pass. */
  readonly placed: readonly Placed[];
  /** Replicas that this pass told to make way. */
  readonly preempted: readonly Preemption[];
  /** Services whose answer may be another than before. */
  readonly changed: readonly string[];
  readonly recheckAfterMs?: number;
}

export interface Answers {
  readonly placed: readonly Placed[];
  readonly waiting: readonly Unplaced[];
}

export interface Board {
  readonly setHost: (host: HostFacts) => void;
  readonly removeHost: (name: string) => void;
  /** A replica as it is now; its bytes count until it is removed. */
  readonly setClaim: (claim: HostClaim) => void;
  readonly removeClaim: (replica: string) => void;
  /** All that a service wants now; an empty list when it waits for nothing. True when that changes the queue. */
  readonly setDemands: (service: string, demands: readonly Demand[], now: number) => boolean;
  readonly pass: (now: number) => PassResult;
  /** What has been decided for a service's demands. */
  readonly answers: (service: string, now: number) => Answers;
  /** Would a demand find a host if these replicas were gone? Only a question. */
  readonly hasRoom: (demand: Demand, without: readonly string[], now: number) => boolean;
  /** Replicas of a service that are to make way and do not show it yet. */
  readonly orders: (service: string) => readonly Preemption[];
  /** Services with demands that have no host, in turn. */
  readonly waiters: () => readonly string[];
  /** Room that is kept for slots without a host. */
  readonly reservations: () => readonly Reservation[];
}

export interface Reservation {
  readonly host: string;
  /** As in `slotKey`. */
  readonly slot: string;
  /** nominated: others are ending there for it. held: it has waited for long, and the host is kept free. */
  readonly why: "nominated" | "held";
}

export function createBoard(): Board {
  const table: Table = { floor: newFloor(), line: newLine(), holds: new Map() };
  const { floor, line } = table;
  let isStale = false;
  let toldMs = Number.NEGATIVE_INFINITY;
  return {
    setHost: (host) => putHost(floor, host),
    removeHost: (name) => removeHost(floor, name),
    setClaim: (claim) => putClaim(floor, claim),
    removeClaim: (replica) => removeClaim(floor, replica),
    setDemands: (service, demands, now) => setDemands(table, service, demands, now),
    pass: (now) => {
      const { touched, hasLooked, ...outcome } = runPass(table, now);
      isStale ||= hasLooked;
      if (!isStale) return { ...outcome, changed: [...touched] };
      const waitMs = toldMs + TELL_MS - now;
      if (waitMs > 0) {
        const recheckAfterMs = Math.min(outcome.recheckAfterMs ?? waitMs, waitMs);
        return { ...outcome, recheckAfterMs, changed: [...touched] };
      }
      isStale = false;
      toldMs = now;
      const head = [...positionsOf(line).keys()].slice(0, TOLD);
      return { ...outcome, changed: [...new Set([...touched, ...head])] };
    },
    answers: (service, now) => {
      const placed: Placed[] = [];
      const waiting: Unplaced[] = [];
      for (const waiter of waitersOf(line, service)) {
        if (waiter.decision.at === "assigned") placed.push(waiter.decision.placed);
        else waiting.push(explain(floor, waiter, positionsOf(line).get(service) ?? 1, now));
      }
      return { placed, waiting };
    },
    hasRoom: (demand, without, now) => hasRoom(floor, line.queue, demand, without, now),
    orders: (service) => ordersOf(floor, service),
    waiters: () => [...positionsOf(line).keys()],
    reservations: () => reservationsOf(table),
  };
}

function reservationsOf({ line, holds }: Table): Reservation[] {
  const nominated = line.queue.flatMap(({ key, decision }): Reservation[] =>
    decision.at === "nominated" ? [{ host: decision.host, slot: key, why: "nominated" }] : [],
  );
  const held = [...holds].flatMap(([slot, host]): Reservation[] =>
    host === undefined ? [] : [{ host, slot, why: "held" }],
  );
  return [...nominated, ...held];
}

function ordersOf({ orders, hostOf, cells }: Floor, service: string): Preemption[] {
  const own: Preemption[] = [];
  for (const [replica, slot] of orders) {
    const host = hostOf.get(replica) ?? "";
    if (cells.get(host)?.claims.get(replica)?.service === service)
      own.push({ replica, service, host, for: slot });
  }
  return own;
}
