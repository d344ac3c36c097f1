/** One watched query, computed once per change for all its subscribers. Between changes it keeps a hash per row. */
import { hash } from "node:crypto";
import { withoutTimes } from "./encode.ts";
import type { RouteError, RouteResponse, RouteResult } from "./routes.ts";

export interface Subscriber {
  /** Marks a row as pending for this subscriber. */
  readonly changed: (key: string) => void;
  /** Starts to send the pending rows. */
  readonly flush: () => void;
  /** True once it has received all pending rows. */
  readonly isIdle: boolean;
  /** Ends the stream because the query has no answer any more; `why` is for the client. */
  readonly fail: (why: string) => void;
}

export interface FeedSource {
  readonly answer: () => RouteResult;
  /** The rows of an answer by key. */
  readonly rowsOf: (answer: RouteResponse) => ReadonlyMap<string, object>;
}

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

export function eventText(event: string, data: object, key?: string): string {
  const id = key === undefined ? "" : `id: ${key.replaceAll(/[\r\n\0]/g, "")}\n`;
  return `event: ${event}\n${id}data: ${JSON.stringify(data)}\n\n`;
}
