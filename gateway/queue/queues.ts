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

  /** Frees the slots of all requests: their Envoy has exited. */
  releaseAll(): void {
    for (const id of [...this.#inFlight.keys()]) this.release(id, { hasFailed: false });
  }

  /** Frees the slots of requests whose end was lost. To be called from time to time. */
  releaseLost(): void {
    const now = this.#clock.monotonicMs();
    for (const [id, { since }] of this.#inFlight)
      if (now - since > MAX_REQUEST_MS) this.release(id, { hasFailed: false });
  }

  #queueOf(key: string): ModelQueue {
    const found = this.#queues.get(key);
    if (found !== undefined) return found;
    const created = new ModelQueue(this.#clock);
    this.#queues.set(key, created);
    return created;
  }
}
