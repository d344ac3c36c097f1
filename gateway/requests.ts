/**
 * Requests in progress: what each holds of Envoy's memory, of its key's limits and of a replica's slots, until `end` returns it.
 * The slot may be free earlier, when Envoy reports the response, or later, when the engine has stopped a canceled request.
 */
import type { KeyLimits } from "../src/gateway/key.ts";
import type { Clock } from "../src/util/ports.ts";
import type { HeldBodies } from "./limits/bodies.ts";
import type { Admission, Limits, TokenUsage } from "./limits/limits.ts";
import type { ServedModel } from "./models/served-model.ts";
import type { Share } from "./queue/fair-queue.ts";
import type { ModelQueue, SlotRequest, SlotResult } from "./queue/model-queue.ts";
import type { ModelQueues } from "./queue/queues.ts";

/** Why a request ended, or its current attempt to get a slot. */
export type EndReason =
  /** Its line is in the access log. */
  | "finished"
  /** A limit or the queue refused it. */
  | "refused"
  /** Envoy closed the question before it had the response: the client left, or Envoy asks again. */
  | "unanswered"
  /** Envoy asked again. */
  | "repeated"
  | "envoy exited"
  /** Envoy no longer has it, and the access log has no line, for example because its disk was full. */
  | "line lost"
  | "too old";

/** Results of a finished request. */
export interface Outcome {
  readonly tokens: TokenUsage;
  readonly tokensPerSecond?: number | undefined;
  /** The replica of its slot failed, even if another one has answered. */
  readonly hasFailed: boolean;
  /** The client left, or Envoy gave up, before the first byte of the response. */
  readonly isCanceled?: boolean;
}

export interface NewRequest extends SlotRequest {
  /** Envoy's id of the request. */
  readonly id: string;
  readonly caller: { readonly id: string; readonly limits: KeyLimits };
  readonly model: ServedModel;
  /** False if it asks for no stream, or its body was not read. */
  readonly isStream: boolean;
}

export type StartResult = SlotResult | Extract<Admission, { readonly at: "refused" }>;

export interface RequestsPorts {
  readonly queues: ModelQueues;
  readonly limits: Limits;
  readonly bodies: HeldBodies;
  /** Called when the limits have admitted a request, before it waits for a slot. */
  readonly onAdmitted: (model: ServedModel) => void;
  readonly clock: Clock;
  /** After it, the slots of canceled requests are not freed: their timers would delay the exit of the gateway. */
  readonly signal: AbortSignal;
}

/** One question of Envoy about a request. Envoy may ask twice about the same request, also while the first question waits. */
interface Attempt {
  /** Identifies it to the limits. */
  readonly limitId: string;
  readonly model: string;
  readonly share: Share;
  readonly isStream: boolean;
  /** As in `ServedModel`. */
  readonly stopsAfterMs: number;
  /** Aborts its wait in the queue. */
  readonly leaving: AbortController;
  slot: Slot | undefined;
}

interface Slot {
  /** Not the name of the model, which another service may have by the end of the request. */
  readonly queue: ModelQueue;
  readonly address: string;
  readonly since: number;
  isFree: boolean;
}

interface AssignedRequest extends Pick<Slot, "since"> {
  readonly id: string;
  readonly model: string;
}

/** After these, Envoy still has the request with its body. */
const KEPT_BY_ENVOY: ReadonlySet<EndReason> = new Set(["refused", "unanswered", "repeated"]);
const NO_TOKENS: TokenUsage = { tokensIn: 0, tokensOut: 0, cached: 0, isEstimated: false };
const NO_OUTCOME: Outcome = { tokens: NO_TOKENS, hasFailed: false };
const CANCELED: Outcome = { ...NO_OUTCOME, isCanceled: true };

/** From this status on, a response may be that of Envoy for a replica that failed. */
export const FAILED_STATUS = 502;
/** A slot must not stay taken forever if Envoy's count of requests is wrong. */
const MAX_REQUEST_MS = 4 * 3_600_000;
/** Age at which Envoy is asked whether it still has a request: a request that waits for its slot must get it within 30 s. */
const OLD_MS = 10_000;
/** An engine that answers others without a pause may never notice that a client has left. */
const MAX_STOPPING_MS = 30_000;
/** Maximum time between the slot and Envoy's request to the replica. */
const SETTLED_MS = 1_000;

export class Requests {
  readonly #ports: RequestsPorts;
  /** By Envoy's id. Those with a slot are in the order in which they got it. */
  readonly #attempts = new Map<string, Attempt>();
  /** Slots of canceled requests that the engine may still process, with the function that cancels the timer of each. */
  readonly #stopping = new Map<Slot, () => void>();
  #started = 0;

  constructor(ports: RequestsPorts) {
    this.#ports = ports;
    const cancelAll = () => this.#stopping.forEach((cancel) => void cancel());
    ports.signal.addEventListener("abort", cancelAll, { once: true });
  }

  /** Passes the request through the limits of its key, then the queue of its model. */
  async start({ id, caller, model, isStream, signal, ...request }: NewRequest): Promise<StartResult> {
    const { limits, queues, onAdmitted, clock } = this.#ports;
    this.end(id, "repeated");
    if (signal.aborted) return { at: "left" };
    this.#started += 1;
    const leaving = new AbortController();
    const limitId = `${id}/${this.#started}`;
    const { key, stopsAfterMs } = model;
    const { share } = request;
    const attempt: Attempt = {
      limitId,
      model: key,
      share,
      isStream,
      stopsAfterMs,
      leaving,
      slot: undefined,
    };
    this.#attempts.set(id, attempt);
    signal.addEventListener("abort", () => this.#endAttempt(id, attempt, "unanswered"), { once: true });
    const admission = await limits.admit(caller, limitId, clock.nowMs());
    if (admission.at === "refused") {
      this.#endAttempt(id, attempt, "refused");
      return admission;
    }
    if (this.#attempts.get(id) !== attempt) {
      limits.ended(limitId, NO_TOKENS, clock.nowMs());
      return { at: "left" };
    }
    onAdmitted(model);
    const queue = queues.get(model.key);
    const result = await queue?.acquire({ ...request, signal: leaving.signal });
    if (queue !== undefined && result?.at === "assigned") return this.#assign(id, attempt, queue, result);
    this.#endAttempt(id, attempt, "refused");
    // Without a queue, the model was deleted.
    return result ?? { at: "off" };
  }

  /**
   * The response is complete: frees the slot and the place among the concurrent requests of the key, before the line in the access
   * log arrives with what the request has used. After a failure the slot waits for that line, which says whether the replica is to
   * be avoided.
   */
  answered(id: string, status: number): void {
    const attempt = this.#attempts.get(id);
    if (attempt === undefined) return;
    this.#ports.limits.answered(attempt.limitId);
    if (attempt.slot !== undefined && status > 0 && status < FAILED_STATUS)
      this.#free(attempt.share, attempt.slot, false);
  }

  /** Returns what the request holds: its slot, its place in the limits, and its body unless Envoy keeps it. False if it holds nothing. */
  end(id: string, why: EndReason, outcome: Outcome = NO_OUTCOME): boolean {
    const { tokens, tokensPerSecond, hasFailed, isCanceled = false } = outcome;
    const { limits, bodies, clock } = this.#ports;
    if (!KEPT_BY_ENVOY.has(why)) bodies.release(id);
    const attempt = this.#attempts.get(id);
    if (attempt === undefined) return false;
    this.#attempts.delete(id);
    limits.ended(attempt.limitId, tokens, clock.nowMs());
    const { share, slot } = attempt;
    if (slot === undefined) attempt.leaving.abort();
    else {
      if (hasFailed) slot.queue.avoid(slot.address);
      const isStopping = isCanceled && !hasFailed && !slot.isFree && attempt.stopsAfterMs > 0;
      if (isStopping) this.#freeOnceStopped(attempt, slot);
      else this.#free(share, slot, hasFailed);
      // After a failure, another replica has generated the tokens.
      if (tokensPerSecond !== undefined && !hasFailed) slot.queue.measured(slot.address, tokensPerSecond);
    }
    return true;
  }

  /**
   * Ends all requests of an Envoy that exited, which cancels them at the engines. Those that wait end with the connection of their
   * question.
   */
  endAll(): void {
    for (const { id } of this.#assigned()) this.end(id, "envoy exited", CANCELED);
    this.#ports.bodies.releaseAll();
  }

  /** True if a request is so old that its line in the access log may be lost. */
  hasOld(): boolean {
    const [oldest] = this.#assigned();
    return oldest !== undefined && this.#ports.clock.monotonicMs() - oldest.since > OLD_MS;
  }

  /**
   * Requests whose line in the access log is lost, with the reason. `active`: the number of requests that Envoy has, by model;
   * undefined if it is not known.
   */
  findLost(active: ReadonlyMap<string, number> | undefined): ReadonlyMap<string, EndReason> {
    const now = this.#ports.clock.monotonicMs();
    const assigned = this.#assigned();
    const young = assigned.filter(({ since }) => now - since <= MAX_REQUEST_MS);
    const old = assigned.slice(0, assigned.length - young.length);
    const lost = new Map<string, EndReason>(old.map(({ id }) => [id, "too old"]));
    if (active === undefined) return lost;
    const surplus = new Map<string, number>();
    const surplusOf = (model: string): number => surplus.get(model) ?? -(active.get(model) ?? 0);
    for (const { model, since } of young)
      if (now - since > SETTLED_MS) surplus.set(model, surplusOf(model) + 1);
    // The oldest come first.
    for (const { id, model, since } of young) {
      if (now - since <= OLD_MS || surplusOf(model) <= 0) continue;
      surplus.set(model, surplusOf(model) - 1);
      lost.set(id, "line lost");
    }
    return lost;
  }

  #assign(
    id: string,
    attempt: Attempt,
    queue: ModelQueue,
    result: Extract<SlotResult, { readonly at: "assigned" }>,
  ): SlotResult {
    const [address = ""] = result.addresses;
    const slot: Slot = { queue, address, since: this.#ports.clock.monotonicMs(), isFree: false };
    // It ended after the queue had given it the slot.
    if (this.#attempts.get(id) !== attempt) {
      this.#free(attempt.share, slot, false);
      return { at: "left" };
    }
    attempt.slot = slot;
    this.#attempts.delete(id);
    this.#attempts.set(id, attempt);
    return result;
  }

  /** Unless a later attempt of the same request has replaced it. */
  #endAttempt(id: string, attempt: Attempt, why: EndReason): void {
    if (this.#attempts.get(id) === attempt) this.end(id, why);
  }

  /** While a stream of another request is in progress, the engine has no pause in which it looks for the client. */
  #freeOnceStopped({ share, isStream, stopsAfterMs }: Attempt, slot: Slot): void {
    const { clock, signal } = this.#ports;
    if (signal.aborted) return;
    // An engine stops a stream at its next token, and answers others within this time even if it never notices.
    const maxMs = isStream ? 0 : 2_000 * slot.queue.meanSeconds;
    const canceledMs = clock.monotonicMs();
    const until = canceledMs + Math.min(MAX_STOPPING_MS, Math.max(stopsAfterMs, maxMs));
    const wait = (wasStreaming: boolean): void => {
      const waitMs = Math.min(stopsAfterMs, until - clock.monotonicMs());
      const cancel = clock.after(waitMs, () => {
        const isStreaming = this.#isStreaming(slot);
        if ((wasStreaming || isStreaming) && clock.monotonicMs() < until) return wait(isStreaming);
        this.#stopping.delete(slot);
        this.#free(share, slot, false, canceledMs);
      });
      this.#stopping.set(slot, cancel);
    };
    wait(this.#isStreaming(slot));
  }

  /** True if another request streams from the replica of this slot. */
  #isStreaming({ queue, address }: Slot): boolean {
    return [...this.#attempts.values()].some(
      ({ isStream, slot }) =>
        isStream && slot?.isFree === false && slot.queue === queue && slot.address === address,
    );
  }

  /** `endMs`: end of the time that counts as the duration of the request. */
  #free(share: Share, slot: Slot, hasFailed: boolean, endMs = this.#ports.clock.monotonicMs()): void {
    if (slot.isFree) return;
    slot.isFree = true;
    const { queue, address, since } = slot;
    const seconds = (endMs - since) / 1_000;
    queue.release({ share, address, seconds, hasFailed });
  }

  #assigned(): readonly AssignedRequest[] {
    return [...this.#attempts].flatMap(([id, { model, slot }]) =>
      slot === undefined ? [] : [{ id, model, since: slot.since }],
    );
  }
}
