/** The queue of one model, in which requests wait until a replica has a free slot. */
import type { Clock } from "../../src/util/ports.ts";
import type { ServedModel } from "../models/served-model.ts";
import { FairQueue, type Share, type Waiting } from "./fair-queue.ts";
import { Replicas } from "./replicas.ts";

export interface SlotRequest {
  readonly share: Share;
  /** Requests with the same value prefer the same replica. */
  readonly affinity: string | undefined;
  /** Monotonic time until which the request may wait. */
  readonly deadlineMs: number;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** `assigned`: addresses to try in order; the slot is at the first one. */
export type SlotResult =
  | { readonly at: "assigned"; readonly addresses: readonly string[]; readonly waitedMs: number }
  | { readonly at: "full"; readonly waiting: number }
  | { readonly at: "timeout"; readonly position: number }
  | { readonly at: "off" }
  | { readonly at: "left" };

export interface EndedRequest {
  readonly share: Share;
  readonly address: string;
  readonly seconds: number;
  /** The replica failed before the response. */
  readonly hasFailed: boolean;
}

interface Pending {
  readonly request: SlotRequest;
  readonly since: number;
  readonly resolve: (result: SlotResult) => void;
}

/** Maximum number of waiting requests per slot. Beyond it, a request is refused, because it would wait for minutes. */
const WAITING_PER_SLOT = 32;
const MIN_WAITING = 256;
const FIRST_ESTIMATE_S = 1;
/** Small, so that one long request among short ones changes the estimate little. */
const ESTIMATE_WEIGHT = 0.02;

export class ModelQueue {
  readonly #replicas = new Replicas();
  readonly #queue = new FairQueue<Pending>();
  readonly #clock: Clock;
  #isOff = false;
  /** Moving average of the time that a request holds a slot; a plain average of the first requests. */
  #meanSeconds = FIRST_ESTIMATE_S;
  #ended = 0;
  /** Charge of each request in flight when it started. */
  readonly #charged = new Map<Share, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  get inFlight(): number {
    return this.#replicas.inFlight;
  }

  get capacity(): number {
    return this.#replicas.capacity;
  }

  get meanSeconds(): number {
    return this.#meanSeconds;
  }

  /** `gateways`: number of gateways that share the slots. */
  update({ endpoints, slots, state }: ServedModel, gateways: number): void {
    this.#isOff = state === "off";
    this.#replicas.set(endpoints, Math.ceil(slots / gateways), this.#clock.monotonicMs());
    if (this.#isOff) this.#resolveAll({ at: "off" });
    else this.#assign();
  }

  /** Must be called when the model was deleted. */
  close(): void {
    this.#isOff = true;
    this.#resolveAll({ at: "off" });
  }

  acquire(request: SlotRequest): Promise<SlotResult> | SlotResult {
    if (this.#isOff) return { at: "off" };
    const now = this.#clock.monotonicMs();
    if (this.#queue.size === 0) {
      const addresses = this.#replicas.take(now, request.affinity);
      if (addresses !== undefined) {
        this.#charged.set(request.share, this.#meanSeconds);
        this.#queue.start(request.share, this.#meanSeconds);
        return { at: "assigned", addresses, waitedMs: 0 };
      }
    }
    return this.#wait(request, now);
  }

  /** Must be called when a request has failed at this replica before its response, before the request is released. */
  avoid(address: string): void {
    this.#replicas.avoid(address, this.#clock.monotonicMs());
  }

  /** Must be called with the generation speed of a request, once it is known. */
  measured(address: string, tokensPerSecond: number): void {
    this.#replicas.measured(address, tokensPerSecond);
  }

  release({ share, address, seconds, hasFailed }: EndedRequest): void {
    this.#replicas.release(address);
    const charged = this.#charged.get(share);
    if (charged !== undefined) {
      this.#charged.delete(share);
      this.#queue.charge(share, seconds - charged);
    }
    if (!hasFailed) {
      this.#ended += 1;
      this.#meanSeconds += Math.max(ESTIMATE_WEIGHT, 1 / this.#ended) * (seconds - this.#meanSeconds);
    }
    this.#assign();
  }

  /** Keys of the waiting requests, in the order in which they will be served. */
  order(): readonly {
    readonly flow: string;
    readonly user: string | undefined;
    readonly waitedMs: number;
  }[] {
    const now = this.#clock.monotonicMs();
    return this.#queue.order(this.#meanSeconds).map(({ share, item }) => ({
      flow: share.flow,
      user: share.user,
      waitedMs: now - item.since,
    }));
  }

  /** Seconds until a request that arrives now is likely to be served. */
  expectedWaitSeconds(): number {
    return (this.#queue.size * this.#meanSeconds) / Math.max(1, this.capacity);
  }

  #wait(request: SlotRequest, now: number): Promise<SlotResult> {
    return new Promise((resolve) => {
      const stop = (): void => {
        cancelDeadline();
        request.signal.removeEventListener("abort", leave);
      };
      const item: Pending = {
        request,
        since: now,
        resolve: (result) => {
          stop();
          resolve(result);
        },
      };
      const waiting: Waiting<Pending> = { share: request.share, item };
      const leave = (): void => {
        if (this.#queue.remove(waiting)) item.resolve({ at: "left" });
      };
      const cancelDeadline = this.#clock.after(Math.max(0, request.deadlineMs - now), () => {
        const position = 1 + this.#queue.order(this.#meanSeconds).indexOf(waiting);
        if (this.#queue.remove(waiting)) item.resolve({ at: "timeout", position });
      });
      this.#queue.push(waiting);
      request.signal.addEventListener("abort", leave, { once: true });
      if (request.signal.aborted) leave();
      if (this.#queue.size <= Math.max(MIN_WAITING, WAITING_PER_SLOT * this.capacity)) return;
      const excess = this.#queue.removeExcess(waiting);
      excess.item.resolve({ at: "full", waiting: this.#queue.size });
    });
  }

  /** Gives free slots to waiting requests. */
  #assign(): void {
    const now = this.#clock.monotonicMs();
    while (this.#queue.size > 0 && this.#replicas.hasFree()) {
      const next = this.#queue.next(this.#meanSeconds);
      if (next === undefined) return;
      const addresses = this.#replicas.take(now, next.item.request.affinity) ?? [];
      this.#charged.set(next.share, this.#meanSeconds);
      next.item.resolve({ at: "assigned", addresses, waitedMs: now - next.item.since });
    }
  }

  #resolveAll(result: SlotResult): void {
    for (let next = this.#queue.next(0); next !== undefined; next = this.#queue.next(0))
      next.item.resolve(result);
  }
}
