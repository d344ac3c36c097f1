/** The leader's scheduler: the shared one, fed from the watches, with assumed replicas and refusals. */
import type { Host } from "../../src/api/host.ts";
import { hostFacts } from "../../src/capacity/placement/host-facts.ts";
import {
  createScheduler,
  type PassResult,
  type Scheduler,
} from "../../src/capacity/placement/scheduler/scheduler.ts";
import type { HostClaim } from "../../src/capacity/placement/types.ts";
import { NO_REFUSALS, type RefusalHistory } from "./refusals.ts";

/** Times are monotonic. */
export interface ControllerScheduler {
  readonly noteHost: (name: string, host: Host | undefined) => void;
  /** A replica as the watch shows it; undefined when it is gone. */
  readonly noteClaim: (replica: string, claim: HostClaim | undefined) => void;
  /** Demands of one service; an empty list when nothing is pending. True when that changes the queue. */
  readonly setDemands: Scheduler["setDemands"];
  /** Runs a pass over what has changed; returns the services whose answers may differ. */
  readonly plan: (now: number) => PassResult;
  readonly answers: Scheduler["answers"];
  /**
   * Would a demand find a host if these replicas were gone? Asked before a serving replica is stopped for it.
   */
  readonly hasRoom: Scheduler["hasRoom"];
  /** Preemptions of replicas of the service that are not yet written to them. */
  readonly preemptions: Scheduler["preemptions"];
  /** Services with slots that have no host, in queue order. */
  readonly pending: Scheduler["pending"];
  /** Counts a replica about to be created until the watch shows it or its create fails. */
  readonly assume: (claim: HostClaim, now: number) => void;
  readonly forgetAssumed: (replica: string) => void;
  readonly refusals: (service: string) => RefusalHistory;
  readonly setRefusals: (service: string, book: RefusalHistory) => void;
  readonly forgetService: (service: string, now: number) => void;
}

/** A replica that the watch has not shown for this long was deleted before it could. */
const UNCONFIRMED_MS = 60_000;

export function createControllerScheduler(): ControllerScheduler {
  const scheduler = createScheduler();
  const assumed = new Map<string, number>();
  const books = new Map<string, RefusalHistory>();
  const forgetAssumed = (replica: string) => {
    if (assumed.delete(replica)) scheduler.removeClaim(replica);
  };
  const { setDemands, answers, hasRoom, preemptions, pending } = scheduler;
  return {
    setDemands,
    answers,
    hasRoom,
    preemptions,
    pending,
    forgetAssumed,
    noteHost: (name, host) =>
      host === undefined ? scheduler.removeHost(name) : scheduler.setHost(hostFacts(host)),
    noteClaim: (replica, claim) => {
      assumed.delete(replica);
      if (claim === undefined) scheduler.removeClaim(replica);
      else scheduler.setClaim(claim);
    },
    plan: (now) => {
      for (const [replica, atMs] of assumed) if (now - atMs > UNCONFIRMED_MS) forgetAssumed(replica);
      return scheduler.pass(now);
    },
    assume: (claim, now) => {
      assumed.set(claim.replica, now);
      scheduler.setClaim(claim);
    },
    refusals: (service) => books.get(service) ?? NO_REFUSALS,
    setRefusals: (service, book) => {
      if (book.since.size === 0 && book.refusals.length === 0) books.delete(service);
      else books.set(service, book);
    },
    forgetService: (service, now) => {
      setDemands(service, [], now);
      books.delete(service);
    },
  };
}
