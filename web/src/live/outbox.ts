/** What one page has not received yet. A page that is slow or hidden gets the newest rows once, not every change. */

import type { ApiRefusal, Topic } from "../../../src/console/protocol.ts";
import type { Batch, LinkState, TopicBatch } from "./messages.ts";

interface Pending {
  isAll: boolean;
  refusal: ApiRefusal | undefined;
  readonly set: Map<string, unknown>;
  readonly gone: Set<string>;
}

export class Outbox {
  topics: ReadonlySet<Topic> = new Set();
  readonly #send: (batch: Batch) => void;
  readonly #pending = new Map<Topic, Pending>();
  #link: LinkState | undefined;
  #serverAheadMs: number | undefined;
  #mayPost = true;

  constructor(send: (batch: Batch) => void) {
    this.#send = send;
  }

  setLink(link: LinkState): void {
    this.#link = link;
  }

  setServerAheadMs(aheadMs: number): void {
    this.#serverAheadMs = aheadMs;
  }

  replaceRows(topic: Topic, rows: ReadonlyMap<string, unknown>): void {
    this.#pending.set(topic, { isAll: true, refusal: undefined, set: new Map(rows), gone: new Set() });
  }

  changeRows(topic: Topic, set: readonly (readonly [string, unknown])[], gone: readonly string[]): void {
    const pending = this.#of(topic);
    for (const [key, row] of set) {
      pending.set.set(key, row);
      pending.gone.delete(key);
    }
    for (const key of gone) {
      pending.set.delete(key);
      pending.gone.add(key);
    }
  }

  refuse(topic: Topic, refusal: ApiRefusal): void {
    this.#pending.set(topic, { isAll: true, refusal, set: new Map(), gone: new Set() });
  }

  forget(topic: Topic): void {
    this.#pending.delete(topic);
  }

  /** The page is ready for the next batch. */
  next(): void {
    this.#mayPost = true;
    this.flush();
  }

  /** Sends everything, unless the page still works on the last batch. */
  flush(): void {
    const isEmpty = this.#pending.size === 0 && this.#link === undefined && this.#serverAheadMs === undefined;
    if (!this.#mayPost || isEmpty) return;
    const topics = [...this.#pending].map(([topic, pending]) => batchOf(topic, pending));
    const batch = { link: this.#link, serverAheadMs: this.#serverAheadMs, topics };
    this.#pending.clear();
    this.#link = undefined;
    this.#serverAheadMs = undefined;
    this.#mayPost = false;
    this.#send(batch as Batch);
  }

  #of(topic: Topic): Pending {
    const known = this.#pending.get(topic);
    if (known !== undefined) return known;
    const fresh: Pending = { isAll: false, refusal: undefined, set: new Map(), gone: new Set() };
    this.#pending.set(topic, fresh);
    return fresh;
  }
}

function batchOf(topic: Topic, { isAll, refusal, set, gone }: Pending): TopicBatch {
  const batch = { topic, isAll, set: [...set], gone: [...gone] };
  return refusal === undefined ? batch : { ...batch, refusal };
}
