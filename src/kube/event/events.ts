/** Kubernetes Events: said once, counted when repeated, and never in the way of the work they tell of. */
import { type BackoffOptions, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { EVENTS } from "../kinds.ts";
import type { ObjectReference } from "../objects.ts";
import type { ApiFailure, ApiResult, KubeClient } from "../types.ts";
import { waitMs } from "../wait.ts";
import { eventName, eventNamespace, incrementSeries, newEvent, type Reporter } from "./event-object.ts";
import { createSeriesMemory, type EventInput, type Series } from "./series.ts";

export interface EventRecorderOptions extends Reporter {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log?: Log;
  readonly signal?: AbortSignal;
}

/** Returns at once and never throws; what cannot be delivered is dropped, oldest first. */
export type RecordEvent = (regarding: ObjectReference, event: EventInput) => void;

const RETRY: BackoffOptions = { firstMs: 500, capMs: 30_000 };
const MAX_WAITING = 256;
const MAX_ATTEMPTS = 8;
/** Repetitions are written at most so often. */
const COUNT_EVERY_MS = 10_000;

/** A recorder with a queue of its own. */
export function createEventRecorder(options: EventRecorderOptions): RecordEvent {
  const recorder = new EventRecorder(options);
  options.signal?.addEventListener("abort", () => recorder.stop(), { once: true });
  return (regarding, event) => recorder.record(regarding, event);
}

class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #signal: AbortSignal;
  readonly #memory = createSeriesMemory();
  readonly #startedMs: number;
  /** Series with something unsaid, oldest first. */
  readonly #waiting = new Set<Series>();
  /** What the server knows: the count last written. */
  readonly #written = new WeakMap<Series, number>();
  readonly #timers = new Map<Series, () => void>();
  #isSending = false;
  #dropped = 0;
  #isRefusalSaid = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#signal = options.signal ?? new AbortController().signal;
    this.#startedMs = options.clock.nowMs();
  }

  record(regarding: ObjectReference, event: EventInput): void {
    if (this.#signal.aborted) return;
    const { series, isNew } = this.#memory.note(regarding, event, this.#options.clock.nowMs());
    if (isNew) this.#enqueue(series);
    else this.#enqueueLater(series);
  }

  stop(): void {
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
    this.#waiting.clear();
  }

  #enqueueLater(series: Series): void {
    if (this.#waiting.has(series) || this.#timers.has(series)) return;
    const cancel = this.#options.clock.after(COUNT_EVERY_MS, () => {
      this.#timers.delete(series);
      this.#enqueue(series);
    });
    this.#timers.set(series, cancel);
  }

  #enqueue(series: Series): void {
    this.#waiting.add(series);
    for (const oldest of this.#waiting) {
      if (this.#waiting.size <= MAX_WAITING) break;
      this.#drop(oldest, "too many events are waiting");
    }
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    let attempts = 0;
    for (
      let [series] = this.#waiting;
      series !== undefined && !this.#signal.aborted;
      [series] = this.#waiting
    ) {
      const failure = await this.#send(series);
      if (failure === undefined) {
        attempts = 0;
        continue;
      }
      attempts += 1;
      this.#sayRefusal(failure);
      if (!isPassing(failure) || attempts >= MAX_ATTEMPTS) {
        this.#drop(series, failure.message);
        this.#memory.forget(series);
        attempts = 0;
      } else {
        await waitMs(this.#options.clock, retryMs(attempts, RETRY, failure.retryAfterMs), this.#signal);
      }
    }
    this.#isSending = false;
  }

  async #send(series: Series): Promise<ApiFailure | undefined> {
    const { count } = series;
    const written = this.#written.get(series);
    const result = written === undefined ? await this.#create(series) : await this.#countUp(series);
    if (!result.ok) return result.error;
    this.#isRefusalSaid = false;
    this.#written.set(series, count);
    this.#waiting.delete(series);
    if (series.count > count) this.#enqueueLater(series);
    return undefined;
  }

  async #create(series: Series): Promise<ApiResult<unknown>> {
    const result = await this.#options.client.create(
      EVENTS,
      newEvent(series, this.#nameOf(series), this.#options),
    );
    // An earlier attempt got through, only its answer did not.
    return !result.ok && result.error.kind === "alreadyExists" ? { ok: true, value: undefined } : result;
  }

  async #countUp(series: Series): Promise<ApiResult<unknown>> {
    const ref = { name: this.#nameOf(series), namespace: eventNamespace(series) };
    const result = await this.#options.client.jsonPatch(EVENTS, ref, incrementSeries(series));
    // Events live for an hour; a series may live longer.
    return !result.ok && result.error.kind === "notFound" ? this.#create(series) : result;
  }

  #nameOf(series: Series): string {
    return eventName(series, this.#startedMs);
  }

  /** Without the right to Events all of them are dropped, and only the log can tell. */
  #sayRefusal({ kind, message }: ApiFailure): void {
    if (kind !== "forbidden" || message.includes("being terminated") || this.#isRefusalSaid) return;
    this.#isRefusalSaid = true;
    this.#options.log?.warn({ code: "ApiForbidden" }, `events cannot be written: ${message}`);
  }

  #drop(series: Series, because: string): void {
    this.#waiting.delete(series);
    this.#dropped += 1;
    const { regarding, event } = series;
    const line = { regarding: regarding.name, reason: event.reason, because, dropped: this.#dropped };
    this.#options.log?.debug(line, "event dropped");
  }
}

function isPassing({ kind }: ApiFailure): boolean {
  return kind === "unreachable" || kind === "unavailable" || kind === "throttled" || kind === "unauthorized";
}
