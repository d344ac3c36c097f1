/** The connection to the server: keeps it, and keeps the rows of all topics that some page shows. */
import { createParser } from "eventsource-parser";
import {
  type ApiRefusal,
  CONSOLE_HEADER,
  CONSOLE_PATH,
  type RowsEvent,
  type Topic,
} from "../../../src/console/protocol.ts";
import type { LinkState } from "./messages.ts";
import type { Outbox } from "./outbox.ts";

const FIRST_RETRY_MS = 250;
const MAX_RETRY_MS = 8_000;
/** The server sends something every 15 s. */
const SILENCE_MS = 40_000;
/** Rows of a page that was left are kept for a moment: back is instant. */
const LINGER_MS = 30_000;
/** The server refuses more. */
const MAX_TOPICS = 32;

const SIGNED_OUT: ApiRefusal = { code: "SignInNeeded", message: "You have signed out." };
const HEADERS = { [CONSOLE_HEADER]: "1", "content-type": "application/json" };

export class LiveStream {
  readonly #outboxes = new Set<Outbox>();
  readonly #rows = new Map<Topic, Map<string, unknown>>();
  /** Rows that replace those of a topic once all of them have arrived. */
  readonly #replacements = new Map<Topic, Map<string, unknown>>();
  /** The server sends each once, also for a topic that a later page shows again. */
  readonly #refusals = new Map<Topic, ApiRefusal>();
  readonly #lastShown = new Map<Topic, number>();
  #link: LinkState = { at: "connecting" };
  #serverAheadMs = 0;
  #id: string | undefined;
  #announced = "";
  /** The stream that a request names topics to now. */
  #announcingTo: string | undefined;
  #retryMs = FIRST_RETRY_MS;
  #abort = new AbortController();
  #isRunning = false;
  #wake: (() => void) | undefined;

  add(outbox: Outbox): void {
    this.#outboxes.add(outbox);
    outbox.setLink(this.#link);
    outbox.setServerAheadMs(this.#serverAheadMs);
    outbox.flush();
    if (this.#isRunning) return;
    this.#isRunning = true;
    // The page names its topics in the same turn: the first request asks for them.
    queueMicrotask(() => void this.#run());
  }

  remove(outbox: Outbox): void {
    this.#outboxes.delete(outbox);
    void this.#announce();
  }

  show(outbox: Outbox, topics: readonly Topic[]): void {
    const before = outbox.topics;
    outbox.topics = new Set(topics);
    for (const topic of before) if (!outbox.topics.has(topic)) outbox.forget(topic);
    for (const topic of topics) {
      if (before.has(topic)) continue;
      const [rows, refusal] = [this.#rows.get(topic), this.#refusals.get(topic)];
      if (refusal !== undefined) outbox.refuse(topic, refusal);
      else if (rows !== undefined) outbox.replaceRows(topic, rows);
    }
    outbox.flush();
    void this.#announce();
  }

  /** At once: the session changed, or the network is back. */
  reconnect(): void {
    this.#retryMs = FIRST_RETRY_MS;
    this.#abort.abort();
    this.#wake?.();
  }

  /** The rows of a reader who has signed out are not shown to the next one. */
  forget(): void {
    this.#rows.clear();
    this.#replacements.clear();
    this.#refusals.clear();
    for (const outbox of this.#outboxes) {
      // No rows would mean that the objects were deleted.
      for (const topic of outbox.topics) outbox.refuse(topic, SIGNED_OUT);
      outbox.flush();
    }
    this.reconnect();
  }

  async #run(): Promise<void> {
    for (;;) {
      const why = await this.#connect();
      this.#id = undefined;
      this.#announced = "";
      if (this.#link.at !== "signed-out" && this.#link.at !== "reconnecting")
        this.#setLink({ at: "reconnecting", sinceMs: Date.now() + this.#serverAheadMs, why });
      const waitMs =
        this.#link.at === "signed-out" ? MAX_RETRY_MS : this.#retryMs * (0.75 + Math.random() / 2);
      this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, waitMs);
      });
    }
  }

  /** Resolves with the reason once the connection is lost. */
  async #connect(): Promise<string> {
    this.#abort = new AbortController();
    this.#replacements.clear();
    const { signal } = this.#abort;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const heard = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => this.#abort.abort(), SILENCE_MS);
    };
    try {
      heard();
      const topics = this.#wanted();
      const url = `${CONSOLE_PATH}/stream?topics=${topics.join(",")}`;
      const answer = await fetch(url, { headers: HEADERS, signal, cache: "no-store" });
      this.#announced = announcement(topics);
      if (answer.status === 401) {
        this.#setLink({ at: "signed-out" });
        return "signed out";
      }
      if (!answer.ok || answer.body === null) return `the server answered ${answer.status}`;
      const parser = createParser({ onEvent: ({ event, data }) => this.#receive(event, data) });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return "the server closed the connection";
        heard();
        parser.feed(value);
        for (const outbox of this.#outboxes) outbox.flush();
      }
    } catch {
      return signal.aborted ? "no answer" : "the server cannot be reached";
    } finally {
      clearTimeout(silence);
    }
  }

  #receive(event: string | undefined, text: string): void {
    const data: unknown = JSON.parse(text);
    switch (event) {
      case "hello": {
        const { id, nowMs } = data as { id: string; nowMs: number };
        this.#id = id;
        this.#retryMs = FIRST_RETRY_MS;
        this.#setClock(nowMs);
        this.#setLink({ at: "live" });
        void this.#announce();
        return;
      }
      case "beat":
        this.#setClock((data as { nowMs: number }).nowMs);
        void this.#announce();
        return;
      case "cluster": {
        const { awaySinceMs } = data as { awaySinceMs?: number };
        this.#setLink(awaySinceMs === undefined ? { at: "live" } : { at: "away", sinceMs: awaySinceMs });
        return;
      }
      case "rows":
        this.#receiveRows(data as RowsEvent);
        return;
      case "refused": {
        const { topic, ...refusal } = data as { topic: Topic; code: string; message: string };
        // The rows stay until the next session decides.
        if (refusal.code === "SignInNeeded") {
          this.#setLink({ at: "signed-out" });
          return;
        }
        this.#rows.delete(topic);
        this.#replacements.delete(topic);
        this.#refusals.set(topic, refusal);
        for (const outbox of this.#showing(topic)) outbox.refuse(topic, refusal);
        return;
      }
    }
  }

  /** A table that is shown keeps its rows until all new ones have arrived; an empty one fills. */
  #receiveRows({ topic, isAll = false, hasMore = false, set, gone }: RowsEvent): void {
    this.#refusals.delete(topic);
    const shown = this.#rows.get(topic) ?? new Map<string, unknown>();
    if (isAll) this.#replacements.set(topic, new Map());
    const replacement = this.#replacements.get(topic);
    const rows = replacement ?? shown;
    for (const [key, row] of set) rows.set(key, row);
    for (const key of gone) rows.delete(key);
    if (replacement === undefined) {
      for (const outbox of this.#showing(topic)) outbox.changeRows(topic, set, gone);
      return;
    }
    if (hasMore && shown.size > 0) return;
    this.#replacements.delete(topic);
    this.#rows.set(topic, rows);
    for (const outbox of this.#showing(topic)) outbox.replaceRows(topic, rows);
  }

  #showing(topic: Topic): Outbox[] {
    return [...this.#outboxes].filter((outbox) => outbox.topics.has(topic));
  }

  /** Sends the topics to the server until it has the last ones. One request at a time: a later one could arrive first. */
  async #announce(): Promise<void> {
    const id = this.#id;
    if (id === undefined || this.#announcingTo === id) return;
    this.#announcingTo = id;
    while (this.#id === id) {
      const text = announcement(this.#wanted());
      if (text === this.#announced) break;
      this.#announced = text;
      const answer = await fetch(`${CONSOLE_PATH}/stream/${id}`, {
        method: "POST",
        headers: HEADERS,
        body: text,
      }).catch(() => undefined);
      if (answer?.ok === true) continue;
      if (answer?.status === 401) this.#setLink({ at: "signed-out" });
      // A stream that the server does not know any more is opened again.
      if (this.#id === id) this.#abort.abort();
      break;
    }
    if (this.#announcingTo === id) this.#announcingTo = undefined;
  }

  #wanted(): readonly Topic[] {
    const nowMs = performance.now();
    for (const outbox of this.#outboxes) for (const topic of outbox.topics) this.#lastShown.set(topic, nowMs);
    const latest = [...this.#lastShown].sort(([, one], [, other]) => other - one);
    for (const [index, [topic, shownMs]] of latest.entries()) {
      if (index < MAX_TOPICS && nowMs - shownMs < LINGER_MS) continue;
      this.#lastShown.delete(topic);
      this.#rows.delete(topic);
      this.#replacements.delete(topic);
      this.#refusals.delete(topic);
    }
    return [...this.#lastShown.keys()].sort();
  }

  #setLink(link: LinkState): void {
    if (link.at === this.#link.at) return;
    this.#link = link;
    for (const outbox of this.#outboxes) {
      outbox.setLink(link);
      outbox.flush();
    }
  }

  #setClock(serverMs: number): void {
    this.#serverAheadMs = serverMs - Date.now();
    for (const outbox of this.#outboxes) outbox.setServerAheadMs(this.#serverAheadMs);
  }
}

/** Body of the request that replaces the topics of a stream. */
function announcement(topics: readonly Topic[]): string {
  return JSON.stringify({ topics });
}
