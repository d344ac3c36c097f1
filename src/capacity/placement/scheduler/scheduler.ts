/**
 * The scheduler: a cache of hosts with their claims, and a queue of pending slots, which are kept between passes.
 * A pass considers only changes since the last one: new demands, and hosts that may have more free memory.
 * It uses neither a clock nor effects: the same calls return the same results.
 */
import type { ScoreWeights } from "../../score.ts";
import type { Demand, HostClaim, HostFacts, Placed, Preemption, Unplaced } from "../types.ts";
import { newCache, removeClaim, removeHost, type SchedulerCache, setClaim, setHost } from "./cache.ts";
import { runPass } from "./cycle.ts";
import { type SchedulerState, setDemands } from "./decisions.ts";
import { explain } from "./explain.ts";
import { newQueue, pendingSlotsOf, positionsOf } from "./queue.ts";
import { type HostsRoom, roomOnHosts, wouldHaveRoom } from "./what-if.ts";

/** Number of services at the head of the queue that are reported when reasons or positions change; others are reported at their next pass. */
const REPORTED = 100;
/** Minimum interval between these reports. */
const REPORT_MS = 5_000;

export interface PassResult {
  /** Slots that were assigned in this pass. */
  readonly placed: readonly Placed[];
  /** Replicas that this pass chose for preemption. */
  readonly preempted: readonly Preemption[];
  /** Services whose placement may have changed. */
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
  /** Sets the current state of a replica. Its bytes count until it is removed. */
  readonly setClaim: (claim: HostClaim) => void;
  readonly removeClaim: (replica: string) => void;
  /** Sets all current demands of a service; an empty list if it has none. True if the queue has changed. */
  readonly setDemands: (service: string, demands: readonly Demand[], now: number) => boolean;
  readonly pass: (now: number) => PassResult;
  /** Decisions for the demands of a service. */
  readonly answers: (service: string, now: number) => SchedulingAnswers;
  /** True if a demand would fit on a host without these replicas. Changes nothing. */
  readonly hasRoom: (demand: Demand, without: readonly string[], now: number) => boolean;
  /** Room for replicas like this demand, at most `limit` per host. Changes nothing. */
  readonly roomOnHosts: (demand: Demand, limit: number, now: number) => HostsRoom;
  /** Replicas of a service that were chosen for preemption and whose objects do not show it yet. */
  readonly preemptions: (service: string) => readonly Preemption[];
  /** Services with pending slots, in queue order. */
  readonly pending: () => readonly string[];
  /** Hosts that are nominated or reserved for pending slots. */
  readonly reservations: () => readonly HostReservation[];
}

export interface HostReservation {
  readonly host: string;
  /** Slot key, see `slotKey`. */
  readonly slot: string;
  /** nominated: replicas on the host are preempted for the slot. reserved: the slot was queued for a long time. */
  readonly why: "nominated" | "reserved";
}

export function createScheduler(weights?: ScoreWeights): Scheduler {
  const state: SchedulerState = { cache: newCache(weights), queue: newQueue(), reservations: new Map() };
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
    roomOnHosts: (demand, limit, now) => roomOnHosts(cache, demand, limit, now),
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
