/** List and watch for as long as a signal lives, through every failure of server and network. */
import { describeError } from "../../api/errors.ts";
import { type BackoffOptions, backoffMs, retryMs } from "../../util/backoff.ts";
import type { Clock, Log } from "../../util/ports.ts";
import type { KubeConnection } from "../client/connect.ts";
import { listPages, readResourceVersion } from "../client/list-pages.ts";
import { explainFailure, isApiUnavailable, REASON_KIND_NOT_INSTALLED } from "../errors.ts";
import { watchPath } from "../paths.ts";
import type { ApiFailure, Kind, KubeObject, ListOptions, Reflector } from "../types.ts";
import { waitMs } from "../wait.ts";
import { createStore, type StoreChange } from "./store.ts";
import { type WatchEnd, watchOnce } from "./watch-once.ts";

export interface ReflectorOptions<T extends KubeObject> extends ListOptions {
  readonly connection: KubeConnection;
  readonly kind: Kind<T>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Many clusters do not have the kind: asked for again every ten minutes, without a warning. */
  readonly isOptional?: boolean;
  /** Called for each change, after the copy holds it. `object` is undefined when it is gone, and `before` is then its last state. */
  readonly onChange: (key: string, object: T | undefined, before: T | undefined) => void;
  /** After each complete list and its changes. */
  readonly onListed?: () => void;
  /** Once, after the first complete list and its changes. */
  readonly onSynced?: () => void;
  /** For each failed attempt: also while a kind is not installed yet, which is a state to wait in. */
  readonly onTrouble?: (failure: ApiFailure) => void;
  readonly userAgent?: string;
  /** Silence after which the watch is reopened, once a read has shown that the server answers. */
  readonly silenceMs?: number;
  readonly listTimeoutMs?: number;
}

const RETRY: BackoffOptions = { firstMs: 250, capMs: 30_000 };
/** The CRDs are being installed: retry soon after they exist. */
const RETRY_NOT_INSTALLED: BackoffOptions = { firstMs: 250, capMs: 5_000 };
/** A kind that many clusters do not have. */
const RETRY_OPTIONAL: BackoffOptions = { firstMs: 600_000, capMs: 600_000 };
/**
 * No interval of bookmarks is promised: on a quiet kind the first one comes after up to two minutes. A network that drops
 * packets is found by TCP keepalive within 45 s; this is for a load balancer that keeps a connection to nowhere open.
 */
const SILENCE_MS = 150_000;
/** A watch that stayed open this long worked. */
const STOOD_MS = 5_000;
const LIST_TIMEOUT_MS = 30_000;

/** Starts at once; ends, with its sockets and timers, when `signal` is aborted. */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  const loop = new ReflectorLoop(options);
  void loop.run();
  return {
    get: (key) => loop.store.get(key),
    list: () => loop.store.list(),
    isSynced: () => loop.isSynced,
    whenSynced: () => loop.whenSynced(),
    lastSignMs: () => loop.lastSignMs,
    interruptions: () => loop.interruptions,
    relist: () => loop.relist(),
    retryWithin: (ms) => loop.retryWithin(ms),
  };
}

class ReflectorLoop<T extends KubeObject> {
  readonly store = createStore<T>();
  isSynced = false;
  lastSignMs: number | undefined;
  interruptions = 0;
  readonly #options: ReflectorOptions<T>;
  readonly #untilSynced = new Set<() => void>();
  /** Where to resume; undefined when a list is due. */
  #resourceVersion: string | undefined;
  /** Since the last complete list. */
  #listFailures = 0;
  /** Since the last event, bookmark or watch that stood; a list does not clear it, or a watch that never works would list in a circle. */
  #watchFailures = 0;
  #isInterrupted = false;
  /** Ends the pass or the wait that is under way. */
  #pass = new AbortController();
  #isRelistDue = false;
  /** What is waited for is a server that could not be reached, and not what one has said. */
  #isUnreached = false;
  #isWaiting = false;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { clock, kind, log, signal } = this.#options;
    while (!signal.aborted) {
      let delayMs = RETRY.capMs;
      this.#pass = new AbortController();
      const end = (): void => this.#pass.abort();
      signal.addEventListener("abort", end, { once: true });
      try {
        const from = this.#isRelistDue ? undefined : this.#resourceVersion;
        delayMs = from === undefined ? await this.#list() : await this.#watch(from);
      } catch (err) {
        // A mistake of ours; without this kind the whole process would be deaf for good.
        this.#resourceVersion = undefined;
        log.error({ err, kind: kind.plural, retryMs: delayMs }, "list or watch failed");
      }
      this.#isWaiting = true;
      if (delayMs > 0 && !this.#isRelistDue) await waitMs(clock, delayMs, this.#pass.signal);
      this.#isWaiting = false;
      signal.removeEventListener("abort", end);
    }
  }

  relist(): void {
    if (this.#options.signal.aborted || this.#isRelistDue) return;
    this.#isRelistDue = true;
    this.#interrupt();
    this.#pass.abort();
  }

  retryWithin(ms: number): void {
    const pass = this.#pass;
    if (this.#isWaiting && this.#isUnreached) this.#options.clock.after(ms, () => pass.abort());
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

  /** Both passes return how long to wait before the next. */
  async #list(): Promise<number> {
    const { connection, kind, namespace, userAgent } = this.#options;
    const { signal } = this.#pass;
    this.#isRelistDue = false;
    // A list that was ordered stays due until one is complete: whoever ordered it waits for it.
    this.#resourceVersion = undefined;
    const result = await listPages(connection, kind, {
      ...selection(this.#options, namespace),
      timeoutMs: this.#options.listTimeoutMs ?? LIST_TIMEOUT_MS,
      signal,
      userAgent,
    });
    if (signal.aborted) return 0;
    if (!result.ok) {
      this.#listFailures += 1;
      return this.#trouble(result.error, this.#listFailures, "list failed");
    }
    this.#listFailures = 0;
    this.#resourceVersion = result.value.resourceVersion;
    this.#sawSign();
    const isFirst = !this.isSynced;
    this.isSynced = true;
    for (const change of this.store.replaceAll(result.value.items)) this.#tell(change);
    this.#guarded(() => this.#options.onListed?.());
    if (isFirst) this.#synced();
    return 0;
  }

  async #watch(resourceVersion: string): Promise<number> {
    const { connection, kind, clock, userAgent } = this.#options;
    const { signal } = this.#pass;
    let signs = 0;
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
      },
      onEvent: (event) => {
        signs += 1;
        this.#watchFailures = 0;
        this.#sawSign();
        if (event.type === "BOOKMARK") {
          this.#resourceVersion = event.resourceVersion;
          return;
        }
        this.#resourceVersion = event.object.metadata.resourceVersion;
        const change =
          event.type === "DELETED" ? this.store.drop(event.object) : this.store.put(event.object);
        if (change !== undefined) this.#tell(change);
      },
    });
    if (signal.aborted) return 0;
    // A quiet kind gives no sign for a minute; the next outage is a new one all the same.
    if (openedMs !== undefined && clock.monotonicMs() - openedMs >= STOOD_MS) this.#watchFailures = 0;
    return end.how === "silent" ? this.#afterSilence(resourceVersion) : this.#afterWatch(end, signs);
  }

  /**
   * A quiet kind and a connection to nowhere look alike, so one read of the kind decides. Where the server answers, the
   * watch is resumed without a word, and shows what a dead connection has missed.
   */
  async #afterSilence(openedFrom: string): Promise<number> {
    const { connection, kind, namespace, silenceMs = SILENCE_MS } = this.#options;
    const { signal } = this.#pass;
    const timeoutMs = this.#options.listTimeoutMs ?? LIST_TIMEOUT_MS;
    const scope = { ...selection(this.#options, namespace), userAgent: this.#options.userAgent };
    const read = await readResourceVersion(connection, kind, { ...scope, timeoutMs, signal });
    if (signal.aborted) return 0;
    if (!read.ok) {
      this.#watchFailures += 1;
      const silence = `no byte from the watch of ${kind.plural} for ${Math.round(silenceMs / 1_000)} s, and reading ${kind.plural} failed`;
      const failure = { ...read.error, message: `${silence}: ${read.error.message}` };
      return this.#trouble(failure, this.#watchFailures, "watch ended");
    }
    this.#watchFailures = 0;
    if (isOlder(read.value, this.#resourceVersion ?? openedFrom)) {
      // A server restored to older data stays silent until its history reaches our resourceVersion.
      this.#resourceVersion = undefined;
      this.#interrupt();
    } else this.lastSignMs = this.#options.clock.monotonicMs();
    return 0;
  }

  #afterWatch(end: Exclude<WatchEnd, { how: "silent" }>, signs: number): number {
    // The usual end after some minutes. Without a single sign in it, something closes what we open: not in a circle.
    if (end.how === "closed" && signs > 0) return 0;
    this.#watchFailures += 1;
    this.#isUnreached = false;
    switch (end.how) {
      case "closed":
        return backoffMs(this.#watchFailures, RETRY);
      case "gone":
        this.#resourceVersion = undefined;
        this.#interrupt();
        return signs > 0 ? 0 : backoffMs(this.#watchFailures, RETRY);
      case "garbled":
        // The same bytes may come again from the same place: begin from a list.
        this.#resourceVersion = undefined;
        return this.#trouble(end.failure, this.#watchFailures, "watch ended");
      case "failed":
        return this.#trouble(end.failure, this.#watchFailures, "watch ended");
      default:
        return end satisfies never;
    }
  }

  #trouble(failure: ApiFailure, failures: number, message: string): number {
    this.#interrupt();
    this.#isUnreached = isApiUnavailable(failure);
    const { log, kind, onTrouble, isOptional = false } = this.#options;
    const isNotInstalled = failure.reason === REASON_KIND_NOT_INSTALLED;
    const retry = !isNotInstalled ? RETRY : isOptional ? RETRY_OPTIONAL : RETRY_NOT_INSTALLED;
    const delayMs = retryMs(failures, retry, failure.retryAfterMs);
    const error = explainFailure(failure);
    const line = { kind: kind.plural, code: error.code, failure, retryMs: delayMs };
    const text = `${message}: ${describeError(error)}`;
    // Said once per trouble, not once per attempt.
    if (failures === 1 && !(isNotInstalled && isOptional)) log.warn(line, text);
    else log.debug(line, text);
    this.#guarded(() => onTrouble?.(failure));
    return delayMs;
  }

  #interrupt(): void {
    this.#isInterrupted = true;
    this.interruptions += 1;
  }

  /** The end of an interruption counts too: whoever measures silence must not count the outage in. */
  #sawSign(): void {
    this.lastSignMs = this.#options.clock.monotonicMs();
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

  #tell({ key, object, before }: StoreChange<T>): void {
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

/** resourceVersions are decimal numbers of any length; what is none is not older. */
function isOlder(version: string, than: string): boolean {
  const isNumber = /^\d+$/;
  if (!isNumber.test(version) || !isNumber.test(than)) return false;
  return version.length === than.length ? version < than : version.length < than.length;
}

function selection(
  { labelSelector, fieldSelector }: ListOptions,
  namespace: string | undefined,
): ListOptions {
  return {
    namespace,
    labelSelector,
    fieldSelector,
  };
}
