/** One client of a feed: writes its pending rows as fast as the client reads. */
import type { ServerResponse } from "node:http";
import { eventText, type Feed, type Subscriber } from "./feed.ts";

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
