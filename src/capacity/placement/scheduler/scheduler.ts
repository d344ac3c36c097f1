/**
 * The scheduler: a cache of hosts and what they hold, and a queue of slots that want one, kept between passes.
 * A pass considers only what has changed since the last one: new demands, and hosts that may have more to give.
 * No clock and no effects: the same calls give the same answers.
 */
import type { Demand, HostClaim, HostFacts, Placed, Preemption, Unplaced } from "../types.ts";
import { newCache, removeClaim, removeHost, type SchedulerCache, setClaim, setHost } from "./cache.ts";
import { runPass } from "./cycle.ts";
import { type SchedulerState, setDemands } from "./decisions.ts";
import { explain } from "./explain.ts";
import { newQueue, pendingSlotsOf, positionsOf } from "./queue.ts";
import { wouldHaveRoom } from "./what-if.ts";

/** So many services at the head of the queue are reported when figures or positions change; the others at their next pass. */
const REPORTED = 100;
/** And no more often than this, however much changes. */
const REPORT_MS = 5_000;

export interface PassResult {
  /** Slots that got a host in this pass. */
  readonly placed: readonly Placed[];
  /** Replicas that this pass chose for preemption. */
  readonly preempted: readonly Preemption[];
  /** Services whose answer may have changed. */
  readonly changed: readonly string[];
  readonly recheckAfterMs?: number;
}

export interface SchedulingAnswers {
  readonly placed: readonly Placed[];
  readonly waiting: readonly Unplaced[];
}

export interface Scheduler {
  readonly setHost: (host: HostFacts) => void;
  readonly removeHost: (name: string) => void;
  /** A replica as it is now; its bytes count until it is removed. */
  readonly setClaim: (claim: HostClaim) => void;
  readonly removeClaim: (replica: string) => void;
  /** All that a service wants now; an empty list when it waits for nothing. True when that changes the queue. */
  readonly setDemands: (service: string, demands: readonly Demand[], now: number) => boolean;
  readonly pass: (now: number) => PassResult;
  /** What has been decided for a service's demands. */
  readonly answers: (service: string, now: number) => SchedulingAnswers;
  /** Would a demand find a host if these replicas were gone? Only a question. */
  readonly hasRoom: (demand: Demand, without: readonly string[], now: number) => boolean;
  /** Replicas of a service that were chosen for preemption and whose objects do not show it yet. */
  readonly preemptions: (service: string) => readonly Preemption[];
  /** Services with slots that have no host, in turn. */
  readonly pending: () => readonly string[];
  /** Hosts that are kept for slots in the queue. */
  readonly reservations: () => readonly HostReservation[];
}

export interface HostReservation {
  readonly host: string;
  /** As in `slotKey`. */
  readonly slot: string;
  /** nominated: replicas there are preempted for it. reserved: it has been queued for long. */
  readonly why: "nominated" | "reserved";
}

export function createScheduler(): Scheduler {
  const state: SchedulerState = { cache: newCache(), queue: newQueue(), reservations: new Map() };
  const { cache, queue } = state;
  let isStale = false;
  let reportedMs = Number.NEGATIVE_INFINITY;
  return {
    setHost: (host) => setHost(cache, host),
    removeHost: (name) => removeHost(cache, name),
    setClaim: (claim) => setClaim(cache, claim),
    removeClaim: (replica) => removeClaim(cache, replica),
    setDemands: (service, demands, now) => setDemands(state, service, demands, now),
    pass: (now) => {
      const { touched, hasRun, ...outcome } = runPass(state, now);
      isStale ||= hasRun;
      if (!isStale) return { ...outcome, changed: [...touched] };
      const waitMs = reportedMs + REPORT_MS - now;
      if (waitMs > 0) {
        const recheckAfterMs = Math.min(outcome.recheckAfterMs ?? waitMs, waitMs);
        return { ...outcome, recheckAfterMs, changed: [...touched] };
      }
      isStale = false;
      reportedMs = now;
      const head = [...positionsOf(queue).keys()].slice(0, REPORTED);
      return { ...outcome, changed: [...new Set([...touched, ...head])] };
    },
    answers: (service, now) => {
      const placed: Placed[] = [];
      const waiting: Unplaced[] = [];
      for (const slot of pendingSlotsOf(queue, service)) {
        if (slot.decision.at === "assigned") placed.push(slot.decision.placed);
        else waiting.push(explain(cache, slot, positionsOf(queue).get(service) ?? 1, now));
      }
      return { placed, waiting };
    },
    hasRoom: (demand, without, now) => wouldHaveRoom(cache, queue.pending, demand, without, now),
    preemptions: (service) => preemptionsOf(cache, service),
    pending: () => [...positionsOf(queue).keys()],
    reservations: () => reservationsOf(state),
  };
}

function reservationsOf({ queue, reservations }: SchedulerState): HostReservation[] {
  const nominated = queue.pending.flatMap(({ key, decision }): HostReservation[] =>
    decision.at === "nominated" ? [{ host: decision.host, slot: key, why: "nominated" }] : [],
  );
  const reserved = [...reservations].flatMap(([slot, host]): HostReservation[] =>
    host === undefined ? [] : [{ host, slot, why: "reserved" }],
  );
  return [...nominated, ...reserved];
}

function preemptionsOf({ hosts }: SchedulerCache, service: string): Preemption[] {
  return [...hosts.values()].flatMap(({ name, preempted, claims }) =>
    [...preempted]
      .filter(([replica]) => claims.get(replica)?.service === service)
      .map(([replica, slot]) => ({ replica, service, host: name, for: slot })),
  );
}
