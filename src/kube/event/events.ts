/** Kubernetes Events, created once and counted when repeated. Recording an Event never blocks its caller. */
import { type BackoffOptions, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { truncateBytes } from "../../util/text.ts";
import { EVENTS } from "../kinds.ts";
import { type KubeEvent, microTime, type ObjectReference } from "../objects.ts";
import type { ApiFailure, ApiResult, JsonPatchOp, KubeClient } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createSeriesMemory, type EventInput, type Series } from "./series.ts";

export interface EventRecorderOptions extends Reporter {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log?: Log;
  readonly signal?: AbortSignal;
}

/** Returns immediately and never throws. Events that cannot be delivered are dropped, oldest first. */
export type RecordEvent = (regarding: ObjectReference, event: EventInput) => void;

const RETRY: BackoffOptions = { firstMs: 500, capMs: 30_000 };
const MAX_QUEUED = 256;
const MAX_ATTEMPTS = 8;
/** Minimum interval between updates of a series. */
const COUNT_EVERY_MS = 10_000;

/** A recorder with its own queue. */
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
  /** Series with unsent changes, oldest first. */
  readonly #queued = new Set<Series>();
  /** The count in the last successful write. */
  readonly #written = new WeakMap<Series, number>();
  readonly #timers = new Map<Series, () => void>();
  #isSending = false;
  #dropped = 0;
  #isForbiddenLogged = false;

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
    this.#queued.clear();
  }

  #enqueueLater(series: Series): void {
    if (this.#queued.has(series) || this.#timers.has(series)) return;
    const cancel = this.#options.clock.after(COUNT_EVERY_MS, () => {
      this.#timers.delete(series);
      this.#enqueue(series);
    });
    this.#timers.set(series, cancel);
  }

  #enqueue(series: Series): void {
    this.#queued.add(series);
    for (const oldest of this.#queued) {
      if (this.#queued.size <= MAX_QUEUED) break;
      this.#drop(oldest, "too many events are queued");
    }
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    let attempts = 0;
    for (
      let [series] = this.#queued;
      series !== undefined && !this.#signal.aborted;
      [series] = this.#queued
    ) {
      const failure = await this.#send(series);
      if (failure === undefined) {
        attempts = 0;
        continue;
      }
      attempts += 1;
      this.#logForbidden(failure);
      if (!isTransient(failure) || attempts >= MAX_ATTEMPTS) {
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
    this.#isForbiddenLogged = false;
    this.#written.set(series, count);
    this.#queued.delete(series);
    if (series.count > count) this.#enqueueLater(series);
    return undefined;
  }

  async #create(series: Series): Promise<ApiResult<unknown>> {
    const result = await this.#options.client.create(
      EVENTS,
      newEvent(series, this.#nameOf(series), this.#options),
    );
    // An earlier attempt succeeded, but its response was lost.
    return !result.ok && result.error.kind === "alreadyExists" ? { ok: true, value: undefined } : result;
  }

  async #countUp(series: Series): Promise<ApiResult<unknown>> {
    const ref = { name: this.#nameOf(series), namespace: eventNamespace(series) };
    const result = await this.#options.client.jsonPatch(EVENTS, ref, incrementSeries(series));
    // The server deletes Events after an hour; a series may live longer.
    return !result.ok && result.error.kind === "notFound" ? this.#create(series) : result;
  }

  #nameOf(series: Series): string {
    return eventName(series, this.#startedMs);
  }

  /** Without the right to create Events, all of them are dropped, and only the log shows it. */
  #logForbidden({ kind, message }: ApiFailure): void {
    if (kind !== "forbidden" || message.includes("being terminated") || this.#isForbiddenLogged) return;
    this.#isForbiddenLogged = true;
    this.#options.log?.warn({ code: "ApiForbidden" }, `events cannot be written: ${message}`);
  }

  #drop(series: Series, because: string): void {
    this.#queued.delete(series);
    this.#dropped += 1;
    const { regarding, event } = series;
    const line = { regarding: regarding.name, reason: event.reason, because, dropped: this.#dropped };
    this.#options.log?.debug(line, "event dropped");
  }
}

function isTransient({ kind }: ApiFailure): boolean {
  return kind === "unreachable" || kind === "unavailable" || kind === "throttled" || kind === "unauthorized";
}

interface Reporter {
  readonly reportingController: string;
  readonly reportingInstance: string;
}

/** Limits of the server for events.k8s.io/v1. */
const MAX_NOTE = 1_024;
const MAX_WORD = 128;
const MAX_NAME_STEM = 200;

/** The server requires that Events of cluster-scoped objects are in `default`. */
function eventNamespace({ regarding }: Series): string {
  return regarding.namespace ?? "default";
}

/** Unique per start of the recorder and series, so that a retry creates the same object. */
export function eventName(series: Series, startedMs: number): string {
  const stem = (series.regarding.name ?? "unknown").slice(0, MAX_NAME_STEM);
  return `${stem}.${startedMs.toString(16)}-${series.id.toString(16)}`;
}

export function newEvent(series: Series, name: string, reporter: Reporter): KubeEvent {
  const { regarding, event, count } = series;
  return {
    metadata: { name, namespace: eventNamespace(series) },
    eventTime: microTime(series.firstAtMs),
    type: event.type,
    reason: event.reason.slice(0, MAX_WORD),
    action: event.action.slice(0, MAX_WORD),
    note: truncateBytes(event.note, MAX_NOTE),
    regarding,
    reportingController: reporter.reportingController,
    reportingInstance: reporter.reportingInstance.slice(0, MAX_WORD),
    series: count > 1 ? seriesOf(series) : undefined,
  };
}

/** The operation `add` also replaces an existing series. */
function incrementSeries(series: Series): JsonPatchOp[] {
  return [{ op: "add", path: "/series", value: seriesOf(series) }];
}

function seriesOf({ count, lastAtMs }: Series) {
  return { count, lastObservedTime: microTime(lastAtMs) };
}
