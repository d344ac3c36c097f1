/** The queues of all models, and the requests in flight by the id that Envoy gave them. */
import type { Clock } from "../../src/util/ports.ts";
import type { ServedModel } from "../models/served-model.ts";
import type { Share } from "./fair-queue.ts";
import { type EndedRequest, ModelQueue, type SlotRequest, type SlotResult } from "./model-queue.ts";

interface InFlight {
  readonly model: string;
  readonly share: Share;
  readonly address: string;
  readonly since: number;
  /** Identifies the question that got the slot. Envoy may ask again for the same request. */
  readonly signal: AbortSignal;
}

/** The end of a request was lost, for example with its Envoy: its slot must not stay taken forever. */
const MAX_REQUEST_MS = 4 * 3_600_000;
/** Envoy is asked about requests of this age. What waits behind a lost one must get the slot before its own wait of 30 s ends. */
const OLD_MS = 10_000;
/** From its slot to the replica, a request needs less. */
const SETTLED_MS = 1_000;

export class Queues {
  readonly #queues = new Map<string, ModelQueue>();
  readonly #inFlight = new Map<string, InFlight>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Requests that have a slot. */
  get inFlight(): number {
    return this.#inFlight.size;
  }

  update(key: string, model: ServedModel | undefined, gateways: number): void {
    if (model === undefined) {
      this.#queues.get(key)?.close();
      this.#queues.delete(key);
      return;
    }
    this.#queueOf(key).update(model, gateways);
  }

  get(key: string): ModelQueue | undefined {
    return this.#queues.get(key);
  }

  list(): Iterable<[string, ModelQueue]> {
    return this.#queues.entries();
  }

  expectedWaitSeconds(key: string): number {
    return this.#queues.get(key)?.expectedWaitSeconds() ?? 0;
  }

  async acquire({ key }: ServedModel, id: string, request: SlotRequest): Promise<SlotResult> {
    const result = await this.#queueOf(key).acquire(request);
    if (result.at === "assigned") {
      const [address = ""] = result.addresses;
      const since = this.#clock.monotonicMs();
      this.#inFlight.set(id, { model: key, share: request.share, address, since, signal: request.signal });
    }
    return result;
  }

  /** The end of a request. Unknown ids are of an earlier process, and have no slot in this one. True if it had a slot. */
  release(id: string, end: Pick<EndedRequest, "tokensPerSecond" | "hasFailed">): boolean {
    const request = this.#inFlight.get(id);
    if (request === undefined) return false;
    this.#inFlight.delete(id);
    const seconds = (this.#clock.monotonicMs() - request.since) / 1_000;
    const { share, address } = request;
    this.#queues.get(request.model)?.release({ share, address, seconds, ...end });
    return true;
  }

  /** Frees the slot of a question whose answer did not reach Envoy. False if the request has a slot by another question, or none. */
  withdraw(id: string, signal: AbortSignal): boolean {
    return this.#inFlight.get(id)?.signal === signal && this.release(id, { hasFailed: false });
  }

  /** Frees the slots of all requests: their Envoy has exited. Returns their ids. */
  releaseAll(): readonly string[] {
    const ids = [...this.#inFlight.keys()];
    for (const id of ids) this.release(id, { hasFailed: false });
    return ids;
  }

  /** Frees the slots of requests whose end was lost. To be called from time to time. Returns their ids. */
  releaseLost(): readonly string[] {
    const now = this.#clock.monotonicMs();
    const ids = [...this.#inFlight].filter(([, { since }]) => now - since > MAX_REQUEST_MS).map(([id]) => id);
    for (const id of ids) this.release(id, { hasFailed: false });
    return ids;
  }

  /** True if a request is so old that its end may have been lost, for example because the disk of the access log was full. */
  hasOld(): boolean {
    const [oldest] = this.#inFlight.values();
    return oldest !== undefined && this.#clock.monotonicMs() - oldest.since > OLD_MS;
  }

  /** Frees the slots of old requests that Envoy no longer has, given its number of requests by model. Returns their ids. */
  releaseBeyond(active: ReadonlyMap<string, number>): readonly string[] {
    const now = this.#clock.monotonicMs();
    const settled = new Map<string, number>();
    for (const { model, since } of this.#inFlight.values())
      if (now - since > SETTLED_MS) settled.set(model, (settled.get(model) ?? 0) + 1);
    const released: string[] = [];
    // The oldest come first.
    for (const [id, { model, since }] of this.#inFlight) {
      const left = settled.get(model) ?? 0;
      if (now - since <= OLD_MS || left <= (active.get(model) ?? 0)) continue;
      settled.set(model, left - 1);
      this.release(id, { hasFailed: false });
      released.push(id);
    }
    return released;
  }

  #queueOf(key: string): ModelQueue {
    const found = this.#queues.get(key);
    if (found !== undefined) return found;
    const created = new ModelQueue(this.#clock);
    this.#queues.set(key, created);
    return created;
  }
}
