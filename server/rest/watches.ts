/** Watches as server-sent events: all rows once, then the changes. */
import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Density } from "../../fitness/density/density.ts";
import type { Clock } from "../../src/util/ports.ts";
import { Feed, type FeedSource } from "./feed.ts";
import type { RouteError } from "./routes.ts";
import { WatchStream } from "./watch-stream.ts";

export interface WatchedQuery {
  /** Equal for equal queries, whose response is computed once for all watches. */
  readonly query: string;
  readonly user: string;
  readonly source: FeedSource;
  /** Checked periodically, because tokens expire and rights are revoked. */
  readonly isStillAllowed: () => Promise<boolean>;
}

export type OpenedWatch =
  | { readonly at: "open"; readonly start: (response: ServerResponse) => void }
  | { readonly at: "refused"; readonly answer: RouteError }
  | { readonly at: "full"; readonly why: string };

export interface Watches {
  /**
   * Resolves in a turn of the event loop that no other caller gets. Clients that reconnect together are all admitted in
   * one turn, and opening a watch may compute a query: requests are answered in between.
   */
  readonly turn: () => Promise<void>;
  readonly open: (watched: WatchedQuery) => OpenedWatch;
  readonly close: () => void;
}

const WATCH_LIMITS = {
  /** Limit of all users together. */
  streams: 128,
  queries: 64,
  /** Limits per user leave room for other users. */
  streamsOfUser: 32,
  queriesOfUser: 8,
};
/** Changes within this time are sent together. */
const GATHER_MS = 250;
/** Watches use at most a fifth of one core, however many different queries there are. */
const PAUSE_PER_WORK = 4;
/** Also detects changes that depend only on time, such as a stale host. */
const BEAT_MS = 15_000;

export function createWatches(options: {
  readonly density: Density;
  readonly clock: Clock;
  readonly limits?: typeof WATCH_LIMITS;
}): Watches {
  const watches = new OpenWatches(options.clock, options.limits ?? WATCH_LIMITS);
  const stopListening = options.density.onChange(() => watches.refreshSoon(GATHER_MS));
  let last: Promise<void> = Promise.resolve();
  return {
    turn: () => {
      last = last.then(() => nextTurn());
      return last;
    },
    open: (watched) => watches.open(watched),
    close: () => {
      stopListening();
      watches.close();
    },
  };
}

class OpenWatches {
  readonly #clock: Clock;
  readonly #limits: typeof WATCH_LIMITS;
  readonly #feeds = new Map<string, Feed>();
  readonly #streams = new Map<WatchStream, WatchedQuery>();
  #cancelRefresh: (() => void) | undefined;
  #isRefreshing = false;
  #mustRefresh = false;
  #pauseUntilMs = 0;
  #cancelBeat: (() => void) | undefined;

  constructor(clock: Clock, limits: typeof WATCH_LIMITS) {
    this.#clock = clock;
    this.#limits = limits;
  }

  open(watched: WatchedQuery): OpenedWatch {
    const { query, user, source } = watched;
    const known = this.#feeds.get(query);
    const why = this.#exceededLimit(user, query);
    if (why !== undefined) return { at: "full", why };
    const feed = known ?? new Feed(source);
    const refusal = known === undefined ? feed.refresh() : undefined;
    if (refusal !== undefined) return { at: "refused", answer: refusal };
    return { at: "open", start: (response) => this.#start(response, feed, watched) };
  }

  refreshSoon(delayMs: number): void {
    if (this.#feeds.size === 0) return;
    this.#mustRefresh = true;
    if (this.#isRefreshing) return;
    const waitMs = Math.max(delayMs, this.#pauseUntilMs - this.#clock.monotonicMs());
    this.#cancelRefresh ??= this.#clock.after(waitMs, () => void this.#refresh());
  }

  close(): void {
    this.#mustRefresh = false;
    this.#cancelRefresh?.();
    this.#cancelBeat?.();
    for (const stream of this.#streams.keys()) stream.end();
  }

  #exceededLimit(user: string, query: string): string | undefined {
    const { streams, streamsOfUser, queries, queriesOfUser } = this.#limits;
    if (this.#streams.size >= streams) return `${streams} watches are open`;
    const own = [...this.#streams.values()].filter((one) => one.user === user);
    if (own.length >= streamsOfUser) return `${user} has ${own.length} open watches`;
    const ownQueries = new Set(own.map((one) => one.query));
    if (!ownQueries.has(query) && ownQueries.size >= queriesOfUser)
      return `${user} watches ${ownQueries.size} different queries`;
    const isNew = !this.#feeds.has(query);
    return isNew && this.#feeds.size >= queries ? `${queries} different queries are watched` : undefined;
  }

  #start(response: ServerResponse, feed: Feed, watched: WatchedQuery): void {
    // The client may have disconnected during the authorization.
    if (response.destroyed || response.closed) return;
    const stream = new WatchStream(response, feed);
    this.#feeds.set(watched.query, feed);
    this.#streams.set(stream, watched);
    response.once("close", () => {
      this.#streams.delete(stream);
      feed.unsubscribe(stream);
      if (!feed.isWatched && this.#feeds.get(watched.query) === feed) this.#feeds.delete(watched.query);
    });
    stream.start();
    this.#cancelBeat ??= this.#clock.after(BEAT_MS, () => this.#beat());
  }

  /** One query per turn of the event loop: requests are answered in between. */
  async #refresh(): Promise<void> {
    this.#cancelRefresh = undefined;
    this.#isRefreshing = true;
    this.#mustRefresh = false;
    let workMs = 0;
    for (const [query, feed] of this.#feeds) {
      const startedMs = this.#clock.monotonicMs();
      if (feed.refresh() !== undefined) this.#feeds.delete(query);
      workMs += this.#clock.monotonicMs() - startedMs;
      await nextTurn();
    }
    this.#isRefreshing = false;
    this.#pauseUntilMs = this.#clock.monotonicMs() + workMs * PAUSE_PER_WORK;
    if (this.#mustRefresh) this.refreshSoon(GATHER_MS);
  }

  #beat(): void {
    for (const [stream, { isStillAllowed }] of this.#streams)
      void isStillAllowed().then((isAllowed) => (isAllowed ? stream.beat() : stream.end()));
    this.#cancelBeat = this.#streams.size === 0 ? undefined : this.#clock.after(BEAT_MS, () => this.#beat());
    this.refreshSoon(0);
  }
}
