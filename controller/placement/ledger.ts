/** What the controller remembers between passes for placement: who waits, what was created and not yet seen, who refused. */
import type { Demand, HostClaim } from "../../src/placement/types.ts";
import { EMPTY_BOOK, type RefusalBook } from "./refusals.ts";

export interface PlacementLedger {
  /** Demands of one service; an empty list when it waits for nothing. True when that changes the queue. */
  readonly setDemands: (service: string, demands: readonly Demand[]) => boolean;
  readonly demands: () => readonly Demand[];
  readonly waiters: () => readonly string[];
  /** A create that was sent: it counts until the watch shows the object, or the create failed. */
  readonly expect: (claim: HostClaim, now: number) => void;
  readonly settle: (replica: string) => void;
  /** Times are monotonic. What the watch has not shown for a minute was deleted before it could. */
  readonly unconfirmed: (now: number) => readonly HostClaim[];
  readonly book: (service: string) => RefusalBook;
  readonly setBook: (service: string, book: RefusalBook) => void;
  readonly forget: (service: string) => void;
}

const UNCONFIRMED_MS = 60_000;

export function createPlacementLedger(): PlacementLedger {
  const demands = new Map<string, readonly Demand[]>();
  const expected = new Map<string, { readonly claim: HostClaim; readonly atMs: number }>();
  const books = new Map<string, RefusalBook>();
  return {
    setDemands: (service, wanted) => {
      const before = turnsOf(demands.get(service) ?? []);
      if (wanted.length === 0) demands.delete(service);
      else demands.set(service, wanted);
      return before !== turnsOf(wanted);
    },
    demands: () => [...demands.values()].flat(),
    waiters: () => [...demands.keys()],
    expect: (claim, now) => expected.set(claim.replica, { claim, atMs: now }),
    settle: (replica) => expected.delete(replica),
    unconfirmed: (now) => {
      for (const [replica, { atMs }] of expected) if (now - atMs > UNCONFIRMED_MS) expected.delete(replica);
      return [...expected.values()].map(({ claim }) => claim);
    },
    book: (service) => books.get(service) ?? EMPTY_BOOK,
    setBook: (service, book) => {
      if (book.since.size === 0 && book.refusals.length === 0) books.delete(service);
      else books.set(service, book);
    },
    forget: (service) => {
      demands.delete(service);
      books.delete(service);
    },
  };
}

/** What of demands decides on the order of the queue. */
function turnsOf(demands: readonly Demand[]): string {
  return demands.map(({ ordinal, priority, since }) => `${ordinal} ${priority} ${since}`).join(",");
}
