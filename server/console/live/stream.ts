/** One console's stream: topics with what the reader may see of them, written as fast as the browser reads. */
import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ApiRefusal, StreamEvent, Topic } from "../../../src/console/protocol.ts";
import { isSeen, type Scope } from "./scope.ts";
import type { TopicTable } from "./table.ts";

/** Size of one event, unless a single row is larger. */
const CHUNK_CHARACTERS = 128 * 1024;

interface OpenTopic {
  readonly table: TopicTable;
  /** Undefined while the topic is refused. */
  scope: Scope | undefined;
  /** Only keys: a slow browser costs no copies, and receives each row once, in its latest state. */
  readonly pending: Set<string>;
  /** All rows must be sent, and those sent before are gone. */
  mustReset: boolean;
  refusal: string;
}

export class ConsoleStream {
  readonly id: string;
  readonly #response: ServerResponse;
  readonly #topics = new Map<Topic, OpenTopic>();
  #isWriting = false;

  constructor(id: string, response: ServerResponse) {
    this.id = id;
    this.#response = response;
  }

  start(nowMs: number): void {
    // A disconnect of the browser is not an error.
    this.#response.on("error", () => {});
    this.#response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    this.#send({ event: "hello", data: { id: this.id, nowMs } });
  }

  get topics(): readonly Topic[] {
    return [...this.#topics.keys()];
  }

  has(topic: Topic): boolean {
    return this.#topics.has(topic);
  }

  /** All visible rows follow. */
  open(topic: Topic, table: TopicTable): void {
    this.#topics.set(topic, { table, scope: undefined, pending: new Set(), mustReset: false, refusal: "" });
  }

  close(topic: Topic): void {
    this.#topics.delete(topic);
  }

  /** Sends all rows again if the scope differs from before. */
  allow(topic: Topic, scope: Scope): void {
    const open = this.#topics.get(topic);
    if (open === undefined || open.scope?.key === scope.key) return;
    open.scope = scope;
    open.refusal = "";
    open.mustReset = true;
    open.pending.clear();
    for (const key of open.table.keys()) this.#add(open, scope, key);
    this.#flush();
  }

  refuse(topic: Topic, refusal: ApiRefusal): void {
    const open = this.#topics.get(topic);
    if (open === undefined || (open.scope === undefined && open.refusal === refusal.code)) return;
    if (open.scope !== undefined)
      this.#send({ event: "rows", data: { topic, isAll: true, set: [], gone: [] } });
    open.scope = undefined;
    open.refusal = refusal.code;
    open.mustReset = false;
    open.pending.clear();
    this.#send({ event: "refused", data: { ...refusal, topic } });
  }

  isAllowed(topic: Topic): boolean {
    return this.#topics.get(topic)?.scope !== undefined;
  }

  /** Writes what all streams with the same scope receive, or remembers the keys while the browser is behind. */
  deliver(topic: Topic, keys: readonly string[], eventOf: (scope: Scope) => Buffer | undefined): void {
    const open = this.#topics.get(topic);
    if (open?.scope === undefined) return;
    if (this.#isWriting || this.#response.writableNeedDrain || open.mustReset) {
      for (const key of keys) this.#add(open, open.scope, key);
      this.#flush();
      return;
    }
    const event = eventOf(open.scope);
    if (event !== undefined) this.#response.write(event);
  }

  /** Keeps proxies from closing the stream. A browser that has stopped reading gets none, and the server's timeout ends it. */
  beat(nowMs: number): void {
    if (!this.#response.writableNeedDrain) this.#send({ event: "beat", data: { nowMs } });
  }

  setAway(sinceMs: number | undefined): void {
    this.#send({ event: "cluster", data: { awaySinceMs: sinceMs } });
  }

  /** The browser keeps the rows that it has. */
  end(refusal?: ApiRefusal): void {
    if (refusal !== undefined)
      for (const topic of this.#topics.keys()) this.#send({ event: "refused", data: { ...refusal, topic } });
    this.#response.end();
  }

  #add({ table, pending }: OpenTopic, scope: Scope, key: string): void {
    if (isSeen(scope, table.rightOf(key))) pending.add(key);
  }

  #send({ event, data }: StreamEvent): void {
    this.#response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #flush(): void {
    if (!this.#isWriting) void this.#write();
  }

  /** Requests are answered between two events. */
  async #write(): Promise<void> {
    this.#isWriting = true;
    if (this.#response.writableNeedDrain) await this.#drained();
    for (let event = this.#next(); event !== undefined; event = this.#next()) {
      if (this.#response.destroyed || this.#response.writableEnded) break;
      if (this.#response.write(event)) await nextTurn();
      else await this.#drained();
    }
    this.#isWriting = false;
  }

  #next(): string | undefined {
    for (const [topic, open] of this.#topics) {
      const { table, scope, pending, mustReset } = open;
      if (scope === undefined || (!mustReset && pending.size === 0)) continue;
      const keys = pending.values();
      const { text, taken } = rowsEvent(topic, keys, (key) => table.textOf(key, scope), mustReset);
      for (const key of taken) pending.delete(key);
      open.mustReset = false;
      return text(pending.size > 0);
    }
    return undefined;
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

/** The event for these keys; undefined if it would be empty. */
export function changeEvent(
  topic: Topic,
  keys: Iterable<string>,
  textOf: (key: string) => string | undefined,
): string {
  return rowsEvent(topic, keys, textOf, false, Number.POSITIVE_INFINITY).text(false);
}

/** Takes keys until the event is full. Rows are already JSON. */
function rowsEvent(
  topic: Topic,
  keys: Iterable<string>,
  textOf: (key: string) => string | undefined,
  isAll: boolean,
  maxCharacters = CHUNK_CHARACTERS,
): { readonly taken: readonly string[]; readonly text: (hasMore: boolean) => string } {
  const taken: string[] = [];
  const set: string[] = [];
  const gone: string[] = [];
  let characters = 0;
  for (const key of keys) {
    taken.push(key);
    const row = textOf(key);
    if (row === undefined) gone.push(JSON.stringify(key));
    else set.push(`[${JSON.stringify(key)},${row}]`);
    characters += key.length + (row?.length ?? 0);
    if (characters >= maxCharacters) break;
  }
  const flags = (hasMore: boolean) => `${isAll ? '"isAll":true,' : ""}${hasMore ? '"hasMore":true,' : ""}`;
  return {
    taken,
    text: (hasMore) =>
      `event: rows\ndata: {"topic":${JSON.stringify(topic)},${flags(hasMore)}"set":[${set.join(",")}],"gone":[${gone.join(",")}]}\n\n`,
  };
}
