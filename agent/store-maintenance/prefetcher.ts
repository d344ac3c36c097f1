/** Fetches models before a replica needs them: one model per namespace at a time, retried until it is stored. */
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { PrefetchOrder, PrefetchState } from "../../src/api/host.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { truncate } from "../../src/util/text.ts";
import { type Correction, fetchRetryMs, findCorrection } from "../replicas/evidence/corrections.ts";
import { defaultTimings } from "../replicas/evidence/timings.ts";
import { isCorrected, requestFor, storeRoomBytes } from "../replicas/prepare/fetch.ts";
import { readSourceSecret } from "../replicas/secrets/secrets.ts";
import type { ModelStore, StoredModel } from "../store/types.ts";
import { RETRYABLE } from "../store/volume.ts";
import { type AwaitSecret, createSecretPoller } from "./secret-poller.ts";

export interface PrefetcherOptions {
  readonly store: Pick<ModelStore, "disk" | "fetch" | "list" | "resolve">;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Maximum number of concurrent downloads of this host. */
  readonly maxDownloads: number;
  /** Called when a state has changed and the Host's status must be updated soon. */
  readonly onChange: () => void;
}

export interface Prefetcher {
  /** Replaces all orders. The fetch of an order that is no longer in the list is aborted. */
  readonly setOrders: (orders: readonly PrefetchOrder[]) => void;
  readonly states: () => readonly PrefetchState[];
  /** Must be called after a stored file was removed: missing files are fetched again immediately. */
  readonly recheck: () => void;
}

interface SecretVersion {
  readonly name: string;
  readonly version: string | undefined;
}

interface Task {
  readonly order: PrefetchOrder;
  readonly text: string;
  state: PrefetchState;
  failures: number;
  /** Checksum of the stored copy, because the source may have other files. */
  sha256?: string | undefined;
  /** Time of the next step on the monotonic clock. */
  nextAt: number;
  /** The next step: a download, or a check whether a download is necessary. */
  next: "fetch" | "check";
  /** The Secret of the last attempt. */
  secret?: SecretVersion | undefined;
  /** The source is not contacted before this time unless the correction was made. */
  blocked?: { readonly by: Correction; readonly until: number } | undefined;
  stopAwaiting: () => void;
  readonly end: AbortController;
}

type Context = PrefetcherOptions & { readonly awaitSecret: AwaitSecret; readonly wake: () => void };

/** Stored files are checked again at this interval, because they may be deleted by a user, evicted, or damaged. */
const RECHECK_MS = 60_000;
/** A separate tenant, so that a replica does not queue behind the prefetches of its namespace. */
const TENANT = "(prefetch)";

export function createPrefetcher(options: PrefetcherOptions): Prefetcher {
  const { clock, signal } = options;
  /** Replicas need the other slots. */
  const maxFetches = Math.max(1, Math.floor(options.maxDownloads / 2));
  const tasks = new Map<string, Task>();
  /** Namespaces with a fetch. There is one fetch per namespace, so that a source that never ends blocks only its namespace. */
  const fetching = new Set<string>();
  let isChecking = false;
  let isRunning = false;
  let waking = new AbortController();
  const wake = (): void => waking.abort();
  const context = { ...options, awaitSecret: createSecretPoller(options), wake };
  const start = (task: Task, work: Promise<void>, end: () => void): void => {
    work
      .catch((err: unknown) => options.log.error({ err, ...aboutOf(task) }, "prefetching ended unexpectedly"))
      .finally(() => {
        end();
        wake();
      });
  };
  const startNext = (task: Task): void => {
    const { namespace } = task.order;
    if (task.next === "check") {
      if (isChecking) return;
      isChecking = true;
      start(task, check(task, context), () => (isChecking = false));
    } else if (!fetching.has(namespace) && fetching.size < maxFetches) {
      fetching.add(namespace);
      start(task, attempt(task, context), () => fetching.delete(namespace));
    }
  };
  const run = async (): Promise<void> => {
    while (!signal.aborted && tasks.size > 0) {
      const now = clock.monotonicMs();
      const byTime = [...tasks.values()].sort((a, b) => a.nextAt - b.nextAt);
      for (const task of byTime) if (task.nextAt <= now) startNext(task);
      const nextAt = byTime.find((task) => task.nextAt > now)?.nextAt ?? now + RECHECK_MS;
      await waitMs(clock, nextAt - now, AbortSignal.any([signal, waking.signal]));
      if (waking.signal.aborted) waking = new AbortController();
    }
  };
  return {
    setOrders: (orders) => {
      const desired = new Map(orders.map((order) => [keyOf(order), order]));
      for (const [key, task] of tasks) {
        const order = desired.get(key);
        if (order !== undefined && JSON.stringify(order) === task.text) continue;
        tasks.delete(key);
        task.stopAwaiting();
        task.end.abort();
      }
      for (const [key, order] of desired) {
        if (tasks.has(key)) continue;
        const task = newTask(order, clock);
        tasks.set(key, task);
        void findOnDisk(task, options);
      }
      wake();
      if (isRunning || tasks.size === 0) return;
      isRunning = true;
      run()
        .catch((err: unknown) => options.log.error({ err }, "prefetching ended unexpectedly"))
        .finally(() => (isRunning = false));
    },
    states: () => [...tasks.values()].map(({ state }) => state),
    recheck: () => {
      for (const task of tasks.values()) if (task.state.phase === "Ready") task.nextAt = clock.monotonicMs();
      wake();
    },
  };
}

function keyOf({ namespace, name, model }: PrefetchOrder): string {
  return `${namespace}/${name} ${model.source}`;
}

function newTask(order: PrefetchOrder, clock: Clock): Task {
  const { namespace, name, model } = order;
  const about = namespace === "" ? {} : { model: `${namespace}/${name}` };
  return {
    order,
    text: JSON.stringify(order),
    state: { ...about, source: publicSource(model.source), phase: "Pending" },
    failures: 0,
    nextAt: clock.monotonicMs(),
    next: "fetch",
    stopAwaiting: () => {},
    end: new AbortController(),
  };
}

/** Finds a stored model without waiting for the downloads of other models. */
async function findOnDisk(task: Task, options: PrefetcherOptions): Promise<void> {
  const { namespace, model } = task.order;
  // The attempt reports a failure to read the store.
  const stored = await options.store.resolve(requestFor(model, namespace)).catch(() => undefined);
  if (stored === undefined || task.end.signal.aborted || task.state.phase !== "Pending") return;
  setReady(task, stored, options);
}

function setReady(task: Task, { sizeBytes, sha256 }: StoredModel, options: PrefetcherOptions): void {
  task.sha256 = sha256;
  task.failures = 0;
  task.state = { ...aboutOf(task), phase: "Ready", bytes: sizeBytes, totalBytes: sizeBytes };
  checkLater(task, options.clock);
  options.onChange();
}

function checkLater(task: Task, clock: Clock): void {
  task.stopAwaiting();
  task.next = "check";
  task.nextAt = clock.monotonicMs() + RECHECK_MS;
}

async function attempt(task: Task, context: Context): Promise<void> {
  try {
    task.stopAwaiting();
    const stored = await fetchOrder(task, context);
    context.log.info({ ...aboutOf(task), sizeBytes: stored.sizeBytes }, "model prefetched");
    setReady(task, stored, context);
  } catch (error) {
    await noteFailure(task, error, context);
  }
}

/** Takes no download slot, so that missing files are noticed while slow sources use all slots. */
async function check(task: Task, context: Context): Promise<void> {
  const { client, clock, store } = context;
  try {
    if (task.state.phase === "Ready") {
      if (await isStored(task, store)) return checkLater(task, clock);
    } else if (task.blocked !== undefined && clock.monotonicMs() < task.blocked.until) {
      const isDone = await isCorrected(task.blocked.by, task.order.namespace, { client, store });
      task.nextAt = Math.min(task.blocked.until, clock.monotonicMs() + defaultTimings.correctionMs);
      if (!isDone) return;
      task.failures = 0;
    }
    task.next = "fetch";
    task.nextAt = clock.monotonicMs();
  } catch (error) {
    await noteFailure(task, error, context);
  }
}

async function noteFailure(task: Task, error: unknown, context: Context): Promise<void> {
  const { clock, log, onChange, signal, store } = context;
  const roomBytes = await storeRoomBytes(store);
  if (task.end.signal.aborted || signal.aborted) return;
  task.failures += 1;
  const by =
    error instanceof MetalbridgeError
      ? findCorrection(error.code, { isOnHost: false, secret: task.secret, roomBytes })
      : undefined;
  const now = clock.monotonicMs();
  const until = now + fetchRetryMs(defaultTimings, task.failures, Math.random());
  task.next = by?.what === "disk" ? "check" : "fetch";
  task.blocked = by && { by, until };
  task.nextAt = by?.what === "disk" ? Math.min(until, now + defaultTimings.correctionMs) : until;
  if (by?.what === "secret")
    task.stopAwaiting = context.awaitSecret({ ...by, namespace: task.order.namespace }, () => {
      task.failures = 0;
      task.nextAt = clock.monotonicMs();
      context.wake();
    });
  noteError(task, error, log);
  onChange();
}

function noteError(task: Task, error: unknown, log: Log): void {
  const about = aboutOf(task);
  if (!(error instanceof MetalbridgeError)) {
    log.error({ ...about, err: error }, "prefetching failed unexpectedly");
    task.state = { ...about, phase: "Pending", reason: "ReplicaStepFailed", message: String(error) };
    return;
  }
  const message = truncate(describeError(error), 1_000);
  if (task.state.message !== message) log.warn({ ...about, code: error.code }, message);
  const phase = RETRYABLE.has(error.code) ? "Pending" : "Failed";
  task.state = { ...about, phase, reason: error.code, message };
}

function aboutOf({ state: { source, model } }: Task): Pick<PrefetchState, "source" | "model"> {
  return model === undefined ? { source } : { source, model };
}

/** One complete copy is enough, because files of earlier content of the source may be missing permanently. */
async function isStored({ state, sha256 }: Task, store: PrefetcherOptions["store"]): Promise<boolean> {
  const copies = (await store.list()).filter((one) => one.source === state.source && one.sha256 === sha256);
  return copies.some(({ damaged, verifiedAt }) => !damaged && verifiedAt !== undefined);
}

/** Number of progress updates per download. It is small because each update goes to every watcher of the Host. */
const STEPS = 20;

async function fetchOrder(task: Task, { store, client, signal, onChange }: PrefetcherOptions) {
  const { namespace, model } = task.order;
  const name = model.secretRef?.name;
  const onVersion = (version: string | undefined): void => {
    task.secret = name === undefined ? undefined : { name, version };
  };
  onVersion(undefined);
  const { credentials } = await readSourceSecret(client, namespace, name, onVersion);
  task.state = { ...aboutOf(task), phase: "Downloading" };
  onChange();
  let step = 0;
  return store.fetch(
    { ...requestFor(model, namespace), credentials },
    {
      signal: AbortSignal.any([signal, task.end.signal]),
      sparesPrefetched: true,
      tenant: TENANT,
      onProgress: ({ bytes, totalBytes }) => {
        const now = totalBytes === undefined ? 0 : Math.floor((bytes * STEPS) / totalBytes);
        if (now === step) return;
        step = now;
        task.state = { ...task.state, bytes, totalBytes: totalBytes ?? task.state.totalBytes };
        onChange();
      },
    },
  );
}
