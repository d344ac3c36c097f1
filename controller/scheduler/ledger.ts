/**
 * The state of placement between passes: the scheduler cache, creates that the watch has not shown, and
 * refusals.
 */
import type { Host } from "../../src/api/host.ts";
import { hostFacts } from "../../src/capacity/placement/host-facts.ts";
import {
  type Answers,
  createScheduler,
  type PassResult,
} from "../../src/capacity/placement/scheduler/scheduler.ts";
import type { Demand, HostClaim, Preemption } from "../../src/capacity/placement/types.ts";
import { EMPTY_BOOK, type RefusalBook } from "./refusals.ts";

/** Times are monotonic. */
export interface PlacementLedger {
  readonly noteHost: (name: string, host: Host | undefined) => void;
  /** A replica as the watch shows it; undefined when it is gone. */
  readonly noteClaim: (replica: string, claim: HostClaim | undefined) => void;
  /** Demands of one service; an empty list when nothing is pending. True when that changes the queue. */
  readonly setDemands: (service: string, demands: readonly Demand[], now: number) => boolean;
  /** Runs a pass over what has changed; returns the services whose answers may differ. */
  readonly plan: (now: number) => PassResult;
  readonly answers: (service: string, now: number) => Answers;
  /**
   * Would a demand find a host if these replicas were gone? Asked before a serving replica is stopped for it.
   */
  readonly hasRoom: (demand: Demand, without: readonly string[], now: number) => boolean;
  /** Preemptions of replicas of the service that are not yet written to them. */
  readonly orders: (service: string) => readonly Preemption[];
  readonly waiters: () => readonly string[];
  /** Counts a create as a claim until the watch shows the object or the create fails. */
  readonly expect: (claim: HostClaim, now: number) => void;
  readonly settle: (replica: string) => void;
  readonly book: (service: string) => RefusalBook;
  readonly setBook: (service: string, book: RefusalBook) => void;
  readonly forget: (service: string, now: number) => void;
}

/** A replica that the watch has not shown for this long was deleted before it could. */
const UNCONFIRMED_MS = 60_000;

export function createPlacementLedger(): PlacementLedger {
  const scheduler = createScheduler();
  const expected = new Map<string, number>();
  const books = new Map<string, RefusalBook>();
  const settle = (replica: string) => {
    if (expected.delete(replica)) scheduler.removeClaim(replica);
  };
  return {
    noteHost: (name, host) =>
      host === undefined ? scheduler.removeHost(name) : scheduler.setHost(hostFacts(host)),
    noteClaim: (replica, claim) => {
      expected.delete(replica);
      if (claim === undefined) scheduler.removeClaim(replica);
      else scheduler.setClaim(claim);
    },
    setDemands: scheduler.setDemands,
    plan: (now) => {
      for (const [replica, atMs] of expected) if (now - atMs > UNCONFIRMED_MS) settle(replica);
      return scheduler.pass(now);
    },
    answers: scheduler.answers,
    hasRoom: scheduler.hasRoom,
    orders: scheduler.preemptions,
    waiters: scheduler.pending,
    expect: (claim, now) => {
      expected.set(claim.replica, now);
      scheduler.setClaim(claim);
    },
    settle,
    book: (service) => books.get(service) ?? EMPTY_BOOK,
    setBook: (service, book) => {
      if (book.since.size === 0 && book.refusals.length === 0) books.delete(service);
      else books.set(service, book);
    },
    forget: (service, now) => {
      scheduler.setDemands(service, [], now);
      books.delete(service);
    },
  };
}
