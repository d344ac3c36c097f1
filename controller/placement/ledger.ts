/** What the controller remembers between passes for placement: the board, what was created and not yet seen, who refused. */
import type { Host } from "../../src/api/host.ts";
import { type Answers, createBoard, type PassResult } from "../../src/placement/board/board.ts";
import { hostFacts } from "../../src/placement/host-facts.ts";
import type { Demand, HostClaim, Preemption } from "../../src/placement/types.ts";
import { EMPTY_BOOK, type RefusalBook } from "./refusals.ts";

/** Times are monotonic. */
export interface PlacementLedger {
  readonly noteHost: (name: string, host: Host | undefined) => void;
  /** A replica as the watch shows it; undefined when it is gone. */
  readonly noteClaim: (replica: string, claim: HostClaim | undefined) => void;
  /** Demands of one service; an empty list when it waits for nothing. True when that changes the queue. */
  readonly setDemands: (service: string, demands: readonly Demand[], now: number) => boolean;
  /** Looks at what has changed; names the services whose answers may be others. */
  readonly plan: (now: number) => PassResult;
  readonly answers: (service: string, now: number) => Answers;
  /** Would a demand find a host if these replicas were gone? Asked before anything that serves is ended for it. */
  readonly hasRoom: (demand: Demand, without: readonly string[], now: number) => boolean;
  /** Replicas of the service that are to make way and have not been told. */
  readonly orders: (service: string) => readonly Preemption[];
  readonly waiters: () => readonly string[];
  /** A create that is sent: it counts until the watch shows the object, or the create failed. */
  readonly expect: (claim: HostClaim, now: number) => void;
  readonly settle: (replica: string) => void;
  readonly book: (service: string) => RefusalBook;
  readonly setBook: (service: string, book: RefusalBook) => void;
  readonly forget: (service: string, now: number) => void;
}

/** What the watch has not shown for so long was deleted before it could. */
const UNCONFIRMED_MS = 60_000;

export function createPlacementLedger(): PlacementLedger {
  const board = createBoard();
  const expected = new Map<string, number>();
  const books = new Map<string, RefusalBook>();
  const settle = (replica: string) => {
    if (expected.delete(replica)) board.removeClaim(replica);
  };
  return {
    noteHost: (name, host) => (host === undefined ? board.removeHost(name) : board.setHost(hostFacts(host))),
    noteClaim: (replica, claim) => {
      expected.delete(replica);
      if (claim === undefined) board.removeClaim(replica);
      else board.setClaim(claim);
    },
    setDemands: board.setDemands,
    plan: (now) => {
      for (const [replica, atMs] of expected) if (now - atMs > UNCONFIRMED_MS) settle(replica);
      return board.pass(now);
    },
    answers: board.answers,
    hasRoom: board.hasRoom,
    orders: board.orders,
    waiters: board.waiters,
    expect: (claim, now) => {
      expected.set(claim.replica, now);
      board.setClaim(claim);
    },
    settle,
    book: (service) => books.get(service) ?? EMPTY_BOOK,
    setBook: (service, book) => {
      if (book.since.size === 0 && book.refusals.length === 0) books.delete(service);
      else books.set(service, book);
    },
    forget: (service, now) => {
      board.setDemands(service, [], now);
      books.delete(service);
    },
  };
}
