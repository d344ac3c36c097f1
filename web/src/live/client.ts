/** The page's side of the stream: rows by topic, changed at most once per animation frame. */
import type { ApiRefusal, Topic } from "../../../src/console/protocol.ts";
import type { Batch, LinkState, TopicBatch, ToWorker } from "./messages.ts";

export interface TopicState {
  readonly rows: ReadonlyMap<string, unknown>;
  /** False until the rows have arrived for the first time. */
  readonly isSynced: boolean;
  readonly refusal?: ApiRefusal | undefined;
}

interface Port {
  postMessage(message: ToWorker): void;
  onmessage: ((event: MessageEvent<Batch>) => void) | null;
}

const NOTHING: TopicState = { rows: new Map(), isSynced: false };
/** A hidden tab gets no frames; its rows must not be minutes old when it is shown again. */
const HIDDEN_MS = 2_000;

export class LiveClient {
  readonly #port: Port;
  readonly #lock = `metalbridge-console-${crypto.randomUUID()}`;
  readonly #topics = new Map<Topic, TopicState>();
  readonly #listeners = new Map<Topic, Set<() => void>>();
  readonly #linkListeners = new Set<() => void>();
  #link: LinkState = { at: "connecting" };
  #serverAheadMs = 0;
  #isShowPending = false;

  constructor(port: Port) {
    this.#port = port;
    // Held as long as the page lives; the worker waits for it.
    void navigator.locks.request(this.#lock, () => new Promise(() => {}));
    port.onmessage = ({ data }) => nextFrame(() => this.#apply(data));
  }

  subscribe(topic: Topic, listener: () => void): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set();
    this.#listeners.set(topic, listeners.add(listener));
    if (listeners.size === 1) this.#showSoon();
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      this.#listeners.delete(topic);
      this.#showSoon();
    };
  }

  topic(topic: Topic): TopicState {
    return this.#topics.get(topic) ?? NOTHING;
  }

  onLink(listener: () => void): () => void {
    this.#linkListeners.add(listener);
    return () => this.#linkListeners.delete(listener);
  }

  get link(): LinkState {
    return this.#link;
  }

  /** Time of the server's clock: ages are right on a machine whose clock is wrong. */
  nowMs(): number {
    return Date.now() + this.#serverAheadMs;
  }

  reconnect(): void {
    this.#port.postMessage({ do: "reconnect" });
  }

  /** Drops all rows in all tabs, and connects again. */
  forget(): void {
    this.#port.postMessage({ do: "forget" });
  }

  /** A page that is replaced by another one often shows the same topics: announced together. */
  #showSoon(): void {
    if (this.#isShowPending) return;
    this.#isShowPending = true;
    queueMicrotask(() => {
      this.#isShowPending = false;
      for (const topic of this.#topics.keys()) if (!this.#listeners.has(topic)) this.#topics.delete(topic);
      this.#port.postMessage({ do: "show", topics: [...this.#listeners.keys()], lock: this.#lock });
    });
  }

  #apply({ link, serverAheadMs, topics }: Batch): void {
    if (serverAheadMs !== undefined) this.#serverAheadMs = serverAheadMs;
    for (const batch of topics)
      if (this.#listeners.has(batch.topic))
        this.#topics.set(batch.topic, changedBy(batch, this.topic(batch.topic)));
    if (link !== undefined) this.#link = link;
    for (const { topic } of topics) for (const listener of this.#listeners.get(topic) ?? []) listener();
    if (link !== undefined) for (const listener of this.#linkListeners) listener();
    this.#port.postMessage({ do: "next" });
  }
}

function changedBy({ isAll, set, gone, refusal }: TopicBatch, before: TopicState): TopicState {
  const rows = new Map(isAll ? [] : before.rows);
  for (const [key, row] of set) rows.set(key, row);
  for (const key of gone) rows.delete(key);
  return { rows, isSynced: refusal === undefined, refusal };
}

function nextFrame(act: () => void): void {
  if (document.visibilityState === "hidden") setTimeout(act, HIDDEN_MS);
  else requestAnimationFrame(act);
}

/** One worker for all tabs where the browser has SharedWorker, else one per tab. */
export function openLive(): LiveClient {
  if (typeof SharedWorker === "undefined")
    return new LiveClient(new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
  const { port } = new SharedWorker(new URL("./worker.ts", import.meta.url), {
    type: "module",
    name: "metalbridge-console",
  });
  return new LiveClient(port);
}
