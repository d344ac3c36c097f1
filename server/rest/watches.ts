/** Answers as server-sent events: everything once, then what changes. */
import type { ServerResponse } from "node:http";
import type { FastifyReply } from "fastify";
import type { Clock } from "../../src/ports.ts";
import type { Density } from "../density/density.ts";
import type { Route, RouteAnswer } from "./routes.ts";
import { withoutTimes } from "./tag.ts";

export interface Watched {
  readonly route: Route;
  readonly answer: () => RouteAnswer;
  /** Asked now and then: a token ends, a right is taken back. */
  readonly isStillAllowed: () => Promise<boolean>;
}

export interface Watches {
  readonly open: (reply: FastifyReply, watched: Watched) => FastifyReply;
  readonly close: () => void;
}

const MOST_WATCHES = 128;
/** Changes that come together are sent together. */
const GATHER_MS = 250;
/** Shows proxies that the stream lives, and clients when it does not; silence of hosts is seen then too. */
const BEAT_MS = 15_000;
/** A client that reads no more is cut off. */
const MOST_UNREAD_BYTES = 8 * 1024 * 1024;
const WHOLE = "all";

export function createWatches({
  density,
  clock,
}: {
  readonly density: Density;
  readonly clock: Clock;
}): Watches {
  const streams = new Set<Stream>();
  let gathering: (() => void) | undefined;
  let beating: (() => void) | undefined;
  const tell = () => {
    gathering = undefined;
    for (const stream of streams) stream.tell();
  };
  const stopListening = density.onChange(() => {
    if (streams.size > 0) gathering ??= clock.after(GATHER_MS, tell);
  });
  const beat = () => {
    for (const stream of streams) void stream.beat();
    beating = streams.size === 0 ? undefined : clock.after(BEAT_MS, beat);
  };
  return {
    open: (reply, watched) => {
      if (streams.size >= MOST_WATCHES) {
        reply.header("retry-after", "10");
        return reply.code(503).type("text/plain; charset=utf-8").send("too many watches\n");
      }
      reply.hijack();
      // The client may have left while its rights were asked for.
      if (reply.raw.destroyed || reply.raw.closed) return reply;
      const stream = new Stream(reply.raw, watched);
      streams.add(stream);
      reply.raw.once("close", () => streams.delete(stream));
      stream.start();
      beating ??= clock.after(BEAT_MS, beat);
      return reply;
    },
    close: () => {
      stopListening();
      gathering?.();
      beating?.();
      for (const stream of streams) stream.end();
    },
  };
}

class Stream {
  readonly #response: ServerResponse;
  readonly #watched: Watched;
  /** What the client has, by key, as text without times. */
  #sent = new Map<string, string>();

  constructor(response: ServerResponse, watched: Watched) {
    this.#response = response;
    this.#watched = watched;
  }

  start(): void {
    // A client that is gone is no error of ours.
    this.#response.on("error", () => {});
    this.#response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    });
    this.tell();
    this.#send("synced", {});
  }

  tell(): void {
    const answer = this.#watched.answer();
    if (answer.status !== 200) {
      this.#send("gone", { message: answer.text });
      this.end();
      return;
    }
    const { itemsOf } = this.#watched.route;
    const items: ReadonlyMap<string, object> = itemsOf?.(answer.body) ?? new Map([[WHOLE, answer.body]]);
    const sent = new Map<string, string>();
    for (const [key, item] of items) {
      const text = withoutTimes(JSON.stringify(item));
      sent.set(key, text);
      if (this.#sent.get(key) !== text) this.#send("put", item, key);
    }
    for (const key of this.#sent.keys()) if (!sent.has(key)) this.#send("delete", { key }, key);
    this.#sent = sent;
  }

  async beat(): Promise<void> {
    if (!(await this.#watched.isStillAllowed())) return this.end();
    this.#response.write(": beat\n\n");
    this.tell();
  }

  end(): void {
    this.#response.end();
  }

  #send(event: string, data: object, key?: string): void {
    if (this.#response.writableLength > MOST_UNREAD_BYTES) {
      this.#response.destroy();
      return;
    }
    const id = key === undefined ? "" : `id: ${key.replaceAll(/[\r\n\0]/g, "")}\n`;
    this.#response.write(`event: ${event}\n${id}data: ${JSON.stringify(data)}\n\n`);
  }
}
