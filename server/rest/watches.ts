/** Watches as server-sent events: all rows once, then the changes. A query is computed once per change for all its watches. */
import { hash } from "node:crypto";
import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Density } from "../../fitness/density/density.ts";
import type { Clock } from "../../src/util/ports.ts";
import { withoutTimes } from "./encode.ts";
import type { RouteError, RouteResponse, RouteResult } from "./routes.ts";

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

interface Subscriber {
  /** Marks a row as pending for this subscriber. */
  readonly changed: (key: string) => void;
  /** Starts to send the pending rows. */
  readonly flush: () => void;
  /** True once it has received all pending rows. */
  readonly isIdle: boolean;
  /** Ends the stream because the query has no answer any more; `why` is for the client. */
  readonly fail: (why: string) => void;
}

interface FeedSource {
  readonly answer: () => RouteResult;
  /** The rows of an answer by key. */
  readonly rowsOf: (answer: RouteResponse) => ReadonlyMap<string, object>;
}

/** One watched query. Between changes it keeps a hash per row. */
export class Feed {
  readonly #source: FeedSource;
  readonly #subscribers = new Set<Subscriber>();
  /** Hash of each row without times, by key. */
  #hashes: ReadonlyMap<string, string> = new Map();
  /** The rows of the last computation, kept only while a subscriber still has to receive some of them. */
  #rows: Map<string, object> | undefined;
  readonly #events = new Map<string, Buffer>();

  constructor(source: FeedSource) {
    this.#source = source;
  }

  get isWatched(): boolean {
    return this.#subscribers.size > 0;
  }

  /** A new subscriber receives every row. */
  subscribe(subscriber: Subscriber): void {
    this.#subscribers.add(subscriber);
    for (const key of this.#hashes.keys()) subscriber.changed(key);
    if (this.hasRows) subscriber.flush();
    else this.refresh();
  }

  unsubscribe(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber);
    this.releaseIfIdle();
  }

  /** Computes the rows and notifies the subscribers of changes. Returns the refusal if the query has no answer. */
  refresh(): RouteError | undefined {
    const answer = this.#source.answer();
    if (answer.status !== 200) {
      for (const subscriber of [...this.#subscribers]) subscriber.fail(answer.text);
      return answer;
    }
    const rows = this.#source.rowsOf(answer);
    const hashes = new Map<string, string>();
    for (const [key, row] of rows) hashes.set(key, hash("sha1", withoutTimes(JSON.stringify(row)), "base64"));
    const before = this.#hashes;
    this.#hashes = hashes;
    this.#rows = new Map(rows);
    this.#events.clear();
    const changed = [...hashes].flatMap(([key, value]) => (before.get(key) === value ? [] : [key]));
    const deleted = [...before.keys()].filter((key) => !hashes.has(key));
    const differing = [...changed, ...deleted];
    for (const subscriber of this.#subscribers) for (const key of differing) subscriber.changed(key);
    // Only after all subscribers know their pending rows: the first to finish would otherwise release the rows of the others.
    for (const subscriber of this.#subscribers) subscriber.flush();
    if (this.isWatched) this.releaseIfIdle();
    return undefined;
  }

  /** True while `eventOf` has rows to send. */
  get hasRows(): boolean {
    return this.#rows !== undefined;
  }

  /** The event with the current state of one row; every subscriber gets the same bytes. */
  eventOf(key: string): Buffer {
    const known = this.#events.get(key);
    if (known !== undefined) return known;
    const row = this.#rows?.get(key);
    const event = row === undefined ? eventText("delete", { key }, key) : eventText("put", row, key);
    const bytes = Buffer.from(event);
    this.#events.set(key, bytes);
    this.#rows?.delete(key);
    return bytes;
  }

  /** Drops the rows once every subscriber has received them. */
  releaseIfIdle(): void {
    for (const { isIdle } of this.#subscribers) if (!isIdle) return;
    this.#rows = undefined;
    this.#events.clear();
  }
}

function eventText(event: string, data: object, key?: string): string {
  const id = key === undefined ? "" : `id: ${key.replaceAll(/[\r\n\0]/g, "")}\n`;
  return `event: ${event}\n${id}data: ${JSON.stringify(data)}\n\n`;
}

/** One client of a feed: writes its pending rows as fast as the client reads. */
export class WatchStream implements Subscriber {
  readonly #response: ServerResponse;
  readonly #feed: Feed;
  /** Only keys, so a slow client costs no copies and receives each row once, in its latest state. */
  readonly #pending = new Set<string>();
  #isWriting = false;
  #isSynced = false;

  constructor(response: ServerResponse, feed: Feed) {
    this.#response = response;
    this.#feed = feed;
  }

  start(): void {
    // A disconnect of the client is not an error.
    this.#response.on("error", () => {});
    this.#response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    });
    this.#feed.subscribe(this);
  }

  changed(key: string): void {
    this.#pending.add(key);
  }

  fail(why: string): void {
    this.#response.end(eventText("gone", { message: why }));
  }

  get isIdle(): boolean {
    return !this.#isWriting && this.#pending.size === 0;
  }

  flush(): void {
    if (!this.#isWriting && (this.#pending.size > 0 || !this.#isSynced)) void this.#write();
  }

  /** Keeps proxies from closing the stream. A client that has stopped reading gets no beat, and the server's timeout ends it. */
  beat(): void {
    if (!this.#response.writableNeedDrain) this.#response.write(": beat\n\n");
  }

  end(): void {
    this.#response.end();
  }

  async #write(): Promise<void> {
    this.#isWriting = true;
    // Keys that change during the loop are added again, and the loop visits them.
    for (const key of this.#pending) {
      this.#pending.delete(key);
      if (!this.#response.write(this.#feed.eventOf(key))) await this.#drained();
      if (this.#response.destroyed || this.#response.writableEnded) return;
    }
    if (!this.#isSynced) this.#response.write(eventText("synced", {}));
    this.#isSynced = true;
    this.#isWriting = false;
    this.#feed.releaseIfIdle();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#response.off("drain", done).off("close", done);
        resolve();
      };
      this.#response.once("drain", done).once("close", done);
    });
  }
}
