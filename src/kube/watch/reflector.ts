/** Lists and watches until a signal is aborted, through all failures of server and network. */
import { describeError } from "../../api/errors.ts";
import { type BackoffOptions, backoffMs, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import type { KubeConnection } from "../client/connect.ts";
import { listPages, readResourceVersion } from "../client/list-pages.ts";
import { explainFailure, isApiUnavailable, REASON_KIND_NOT_INSTALLED } from "../errors.ts";
import { watchPath } from "../paths.ts";
import { isOlderVersion } from "../resource-version.ts";
import type { ApiFailure, Kind, KubeObject, ListOptions, Reflector } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createSlimmer, createStore, type StoreChange } from "./store.ts";
import { type WatchEnd, watchOnce } from "./watch-once.ts";

export interface ReflectorOptions<T extends KubeObject> extends ListOptions {
  readonly connection: KubeConnection;
  readonly kind: Kind<T>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** The part of an object that is kept in memory, for kinds with many large objects; by default all of it. May change the object. */
  readonly keep?: (object: T) => T;
  /** Objects in each page of a list. A page is in memory as a whole. */
  readonly pageSize?: number;
  /** Many clusters do not have the kind: it is retried every ten minutes, without a warning. */
  readonly isOptional?: boolean;
  /** For an optional kind: true if it is known to be installed, so that it is retried soon. */
  readonly isInstalled?: () => boolean;
  /** Called for each change, after the copy was updated. If the object was deleted, `object` is undefined and `before` its last state. */
  readonly onChange: (key: string, object: T | undefined, before: T | undefined) => void;
  /** Called after each complete list and its changes. */
  readonly onListed?: () => void;
  /** Called once, after the first complete list and its changes. */
  readonly onSynced?: () => void;
  /** Called after each complete list, and whenever a watch is open. */
  readonly onResponse?: (() => void) | undefined;
  /** Called for each failed attempt, including while a kind is not installed yet. */
  readonly onFailure?: ((failure: ApiFailure) => void) | undefined;
  readonly userAgent?: string;
  /** Time without data after which the watch is reopened, once a read has shown that the server answers. */
  readonly silenceMs?: number;
  readonly listTimeoutMs?: number;
}

const RETRY: BackoffOptions = { firstMs: 250, capMs: 30_000 };
/** The CRDs are being installed: retry soon after they exist. */
const RETRY_NOT_INSTALLED: BackoffOptions = { firstMs: 250, capMs: 5_000 };
/** Many clusters do not have the kind. */
const RETRY_OPTIONAL: BackoffOptions = { firstMs: 600_000, capMs: 600_000 };
/**
 * Kubernetes does not guarantee how often bookmarks are sent: on a quiet kind the first one arrives after up to two minutes. TCP keepalive
 * detects a network that drops packets within 45 s; this timeout is for a load balancer that keeps a dead connection open.
 */
const SILENCE_MS = 150_000;
/** A watch that stayed open for this time has worked. */
const STABLE_MS = 5_000;
const LIST_TIMEOUT_MS = 30_000;

/** Starts immediately, and stops with all its sockets and timers when `signal` is aborted. */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const loop = new ReflectorLoop(options);
  void loop.run();
  return {
    get: (key) => loop.store.get(key),
    list: () => loop.store.list(),
    isSynced: () => loop.isSynced,
    whenSynced: () => loop.whenSynced(),
    lastActivityMs: () => loop.lastActivityMs,
    interruptions: () => loop.interruptions,
    relist: () => loop.relist(),
    retryWithin: (ms) => loop.retryWithin(ms),
  };
}

/** The reflector of a kind that this process neither needs nor has rights to: synced and always empty. */
export const UNWATCHED: Reflector<never> = {
  get: () => undefined,
  list: () => [],
  isSynced: () => true,
  whenSynced: () => Promise.resolve(),
  lastActivityMs: () => undefined,
  interruptions: () => 0,
  relist: () => {},
  retryWithin: () => {},
};

/** For `keep`, where nothing reads who manages a field: that is a third of a service, and half of a Node. */
export function withoutManagers<T extends KubeObject>(object: T): T {
  delete object.metadata.managedFields;
  return object;
}

class ReflectorLoop<T extends KubeObject> {
  readonly store = createStore<T>();
  isSynced = false;
  lastActivityMs: number | undefined;
  interruptions = 0;
  readonly #options: ReflectorOptions<T>;
  readonly #keep: (object: T) => T;
  readonly #untilSynced = new Set<() => void>();
  /** Version to resume the watch from; undefined if a list must run first. */
  #resourceVersion: string | undefined;
  /** Failures since the last complete list. */
  #listFailures = 0;
  /** Failures since the last event, bookmark or stable watch. A list does not reset it, or a watch that never works would list in a loop. */
  #watchFailures = 0;
  #isInterrupted = false;
  /** Ends the current pass or wait. */
  #pass = new AbortController();
  #mustRelist = false;
  /** The last failure was an unreachable server. */
  #isUnreachable = false;
  #isWaiting = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    const { keep = (all: T) => all } = options;
    const slim = createSlimmer<T>();
    this.#keep = (object) => slim(keep(object));
  }

  async run(): Promise<void> {
    const { clock, kind, log, signal } = this.#options;
    while (!signal.aborted) {
      let delayMs = RETRY.capMs;
      this.#pass = new AbortController();
      const end = (): void => this.#pass.abort();
      signal.addEventListener("abort", end, { once: true });
      try {
        const from = this.#mustRelist ? undefined : this.#resourceVersion;
        delayMs = from === undefined ? await this.#list() : await this.#watch(from);
      } catch (err) {
        // This is a bug. The loop continues, because without it the process would never see this kind again.
        this.#resourceVersion = undefined;
        log.error({ err, kind: kind.plural, retryMs: delayMs }, "list or watch failed");
      }
      this.#isWaiting = true;
      if (delayMs > 0 && !this.#mustRelist) await waitMs(clock, delayMs, this.#pass.signal);
      this.#isWaiting = false;
      signal.removeEventListener("abort", end);
    }
  }

  relist(): void {
    if (this.#options.signal.aborted || this.#mustRelist) return;
    this.#mustRelist = true;
    this.#interrupt();
    this.#pass.abort();
  }

  retryWithin(ms: number): void {
    const pass = this.#pass;
    if (this.#isWaiting && this.#isUnreachable) this.#options.clock.after(ms, () => pass.abort());
  }

  whenSynced(): Promise<void> {
    const { signal } = this.#options;
    if (this.isSynced) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#untilSynced.delete(done);
        reject(signal.reason);
      };
      const done = () => {
        signal.removeEventListener("abort", stop);
        resolve();
      };
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      this.#untilSynced.add(done);
    });
  }

  /** Both passes return the time to wait before the next pass. */
  async #list(): Promise<number> {
    const { connection, kind, listTimeoutMs: timeoutMs = LIST_TIMEOUT_MS } = this.#options;
    const { signal } = this.#pass;
    this.#mustRelist = false;
    // A requested list is repeated until one is complete.
    this.#resourceVersion = undefined;
    const result = await listPages(connection, kind, {
      ...this.#options,
      keep: this.#keep,
      timeoutMs,
      signal,
    });
    if (signal.aborted) return 0;
    if (!result.ok) {
      this.#listFailures += 1;
      // The objects were removed with their kind, perhaps while no watch was open.
      if (this.#isKindGone(result.error))
        for (const change of this.store.replaceAll([])) this.#notify(change);
      return this.#failed(result.error, this.#listFailures, "list failed");
    }
    this.#listFailures = 0;
    this.#resourceVersion = result.value.resourceVersion;
    this.#recordActivity();
    this.#guarded(() => this.#options.onResponse?.());
    const isFirst = !this.isSynced;
    this.isSynced = true;
    for (const change of this.store.replaceAll(result.value.items)) this.#notify(change);
    this.#guarded(() => this.#options.onListed?.());
    if (isFirst) this.#synced();
    return 0;
  }

  async #watch(resourceVersion: string): Promise<number> {
    const { connection, kind, clock, userAgent } = this.#options;
    const { signal } = this.#pass;
    let events = 0;
    let openedMs: number | undefined;
    const end = await watchOnce<T>({
      connection,
      clock,
      signal,
      userAgent,
      path: watchPath(kind, this.#options, resourceVersion),
      silenceMs: this.#options.silenceMs ?? SILENCE_MS,
      onOpen: () => {
        openedMs = clock.monotonicMs();
        this.#guarded(() => this.#options.onResponse?.());
      },
      onEvent: (event) => {
        events += 1;
        this.#watchFailures = 0;
        this.#recordActivity();
        if (event.type === "BOOKMARK") {
          this.#resourceVersion = event.resourceVersion;
          return;
        }
        this.#resourceVersion = event.object.metadata.resourceVersion;
        const object = this.#keep(event.object);
        const change = event.type === "DELETED" ? this.store.drop(object) : this.store.put(object);
        if (change !== undefined) this.#notify(change);
      },
    });
    if (signal.aborted) return 0;
    // A watch of a quiet kind may have had no event, but the next outage is a new one.
    if (openedMs !== undefined && clock.monotonicMs() - openedMs >= STABLE_MS) this.#watchFailures = 0;
    return end.outcome === "silent" ? this.#afterSilence(resourceVersion) : this.#afterWatch(end, events);
  }

  /**
   * A quiet kind cannot be distinguished from a dead connection, so a read of the kind decides. If the server answers, the watch
   * is resumed without a log line, and receives the events that a dead connection has missed.
   */
  async #afterSilence(openedFrom: string): Promise<number> {
    const { connection, kind, silenceMs = SILENCE_MS } = this.#options;
    const { signal } = this.#pass;
    const timeoutMs = this.#options.listTimeoutMs ?? LIST_TIMEOUT_MS;
    const read = await readResourceVersion(connection, kind, { ...this.#options, timeoutMs, signal });
    if (signal.aborted) return 0;
    if (!read.ok) {
      this.#watchFailures += 1;
      const silence = `the watch of ${kind.plural} received no data for ${Math.round(silenceMs / 1_000)} s, and reading ${kind.plural} failed`;
      const failure = { ...read.error, message: `${silence}: ${read.error.message}` };
      return this.#failed(failure, this.#watchFailures, "watch ended");
    }
    this.#watchFailures = 0;
    if (isOlderVersion(read.value, this.#resourceVersion ?? openedFrom)) {
      // A server that was restored to older data sends nothing until its history reaches our resourceVersion.
      this.#resourceVersion = undefined;
      this.#interrupt();
    } else this.lastActivityMs = this.#options.clock.monotonicMs();
    return 0;
  }

  #afterWatch(end: Exclude<WatchEnd, { outcome: "silent" }>, events: number): number {
    // The server closes watches after some minutes. Without an event, something else closes them, so wait before the next.
    if (end.outcome === "closed" && events > 0) return 0;
    this.#watchFailures += 1;
    this.#isUnreachable = false;
    switch (end.outcome) {
      case "closed":
        return backoffMs(this.#watchFailures, RETRY);
      case "gone":
        this.#resourceVersion = undefined;
        this.#interrupt();
        return events > 0 ? 0 : backoffMs(this.#watchFailures, RETRY);
      case "garbled":
        // A watch from the same version may send the same bytes again, so start from a list.
        this.#resourceVersion = undefined;
        return this.#failed(end.failure, this.#watchFailures, "watch ended");
      case "failed":
        return this.#failed(end.failure, this.#watchFailures, "watch ended");
      default:
        return end satisfies never;
    }
  }

  #failed(failure: ApiFailure, failures: number, message: string): number {
    this.#interrupt();
    this.#isUnreachable = isApiUnavailable(failure);
    const { log, kind, onFailure, isOptional = false, isInstalled = () => false } = this.#options;
    const isNotInstalled = failure.reason === REASON_KIND_NOT_INSTALLED;
    const retry = !isNotInstalled
      ? RETRY
      : isOptional && !isInstalled()
        ? RETRY_OPTIONAL
        : RETRY_NOT_INSTALLED;
    const delayMs = retryMs(failures, retry, failure.retryAfterMs);
    const error = explainFailure(failure);
    const line = { kind: kind.plural, code: error.code, failure, retryMs: delayMs };
    const text = `${message}: ${describeError(error)}`;
    // Logged as a warning once per outage, not once per attempt.
    if (failures === 1 && !(isNotInstalled && isOptional)) log.warn(line, text);
    else log.debug(line, text);
    this.#guarded(() => onFailure?.(failure));
    return delayMs;
  }

  /** False for kinds whose definition is not watched: a server that starts may refuse them too. */
  #isKindGone({ reason }: ApiFailure): boolean {
    return reason === REASON_KIND_NOT_INSTALLED && this.#options.isInstalled?.() === false;
  }

  #interrupt(): void {
    this.#isInterrupted = true;
    this.interruptions += 1;
  }

  /** The end of an interruption is counted too, because a measured silence must not include the outage. */
  #recordActivity(): void {
    this.lastActivityMs = this.#options.clock.monotonicMs();
    if (!this.#isInterrupted) return;
    this.#isInterrupted = false;
    this.interruptions += 1;
  }

  #synced(): void {
    const { log, kind, onSynced } = this.#options;
    log.info({ kind: kind.plural, objects: this.store.list().length }, "first list is complete");
    this.#guarded(() => onSynced?.());
    for (const done of this.#untilSynced) done();
    this.#untilSynced.clear();
  }

  #notify({ key, object, before }: StoreChange<T>): void {
    this.#guarded(() => this.#options.onChange(key, object, before));
  }

  #guarded(handler: () => void): void {
    try {
      handler();
    } catch (err) {
      this.#options.log.error({ err, kind: this.#options.kind.plural }, "handler failed");
    }
  }
}
