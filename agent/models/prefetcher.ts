/** Fetches what the cluster wants on this host before any replica does: one model of a namespace at a time, retried until it is there. */
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { PrefetchOrder, PrefetchState } from "../../src/api/host.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { publicSource } from "../../src/models/source/source.ts";
import type { Clock, Log } from "../../src/ports.ts";
import { truncate } from "../../src/text.ts";
import { isCorrected, requestFor, roomOf } from "../replicas/act/fetch.ts";
import { readSourceSecret } from "../replicas/act/secrets.ts";
import { type CorrectedBy, correctedBy, retryDelayMs } from "../replicas/plan/corrections.ts";
import { defaultTimings, fetchRetryMs } from "../replicas/plan/timings.ts";
import type { ModelStore } from "../store/types.ts";
import { RETRYABLE } from "../store/volume.ts";

export interface PrefetcherOptions {
  readonly store: Pick<ModelStore, "disk" | "fetch" | "list" | "resolve">;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** A state changed that the Host's status should show soon. */
  readonly onChange: () => void;
}

export interface Prefetcher {
  /** All that is wanted now; what is not named any more is not fetched any further. */
  readonly want: (orders: readonly PrefetchOrder[]) => void;
  readonly states: () => readonly PrefetchState[];
  /** A stored file is gone: what is missing is fetched again at once. */
  readonly lookAgain: () => void;
}

interface Task {
  readonly order: PrefetchOrder;
  readonly text: string;
  state: PrefetchState;
  failures: number;
  /** Of the copy that is there: the source may have other files. */
  sha256?: string | undefined;
  /** On the monotonic clock. */
  nextAt: number;
  /** That its last attempt used. */
  secret?: { readonly name: string; readonly version: string | undefined } | undefined;
  /** Until then the source is asked again only once what its last failure names was corrected. */
  waits?: { readonly for: CorrectedBy; readonly until: number } | undefined;
  readonly end: AbortController;
}

/** Files may have been deleted by hand, evicted, or found damaged. */
const LOOK_AGAIN_MS = 60_000;
/** Of different namespaces, so that a source that never ends holds up its own namespace only; replicas need the bandwidth. */
const MAX_ATTEMPTS = 2;

export function createPrefetcher(options: PrefetcherOptions): Prefetcher {
  const { clock, signal } = options;
  const tasks = new Map<string, Task>();
  const busy = new Set<string>();
  let isRunning = false;
  let wake = new AbortController();
  const start = (task: Task): void => {
    const { namespace } = task.order;
    busy.add(namespace);
    attempt(task, options)
      .catch((err: unknown) => options.log.error({ err }, "prefetching a model ended unexpectedly"))
      .finally(() => {
        busy.delete(namespace);
        wake.abort();
      });
  };
  const run = async (): Promise<void> => {
    while (!signal.aborted && tasks.size > 0) {
      const [task] = [...tasks.values()]
        .filter(({ order }) => !busy.has(order.namespace))
        .sort((a, b) => a.nextAt - b.nextAt);
      const mayStart = task !== undefined && busy.size < MAX_ATTEMPTS;
      const delayMs = mayStart ? task.nextAt - clock.monotonicMs() : LOOK_AGAIN_MS;
      if (mayStart && delayMs <= 0) start(task);
      else await waitMs(clock, delayMs, AbortSignal.any([signal, wake.signal]));
      if (wake.signal.aborted) wake = new AbortController();
    }
  };
  return {
    want: (orders) => {
      const wanted = new Map(orders.map((order) => [keyOf(order), order]));
      for (const [key, task] of tasks) {
        const order = wanted.get(key);
        if (order !== undefined && JSON.stringify(order) === task.text) continue;
        tasks.delete(key);
        task.end.abort();
      }
      for (const [key, order] of wanted) {
        if (tasks.has(key)) continue;
        const task = newTask(order, clock);
        tasks.set(key, task);
        void findOnDisk(task, options);
      }
      wake.abort();
      if (isRunning || tasks.size === 0) return;
      isRunning = true;
      run()
        .catch((err: unknown) => options.log.error({ err }, "prefetching ended unexpectedly"))
        .finally(() => (isRunning = false));
    },
    states: () => [...tasks.values()].map(({ state }) => state),
    lookAgain: () => {
      for (const task of tasks.values()) if (task.state.phase === "Ready") task.nextAt = clock.monotonicMs();
      wake.abort();
    },
  };
}

function keyOf({ namespace, name, model }: PrefetchOrder): string {
  return `${namespace}/${name} ${model.source}`;
}

function newTask(order: PrefetchOrder, clock: Clock): Task {
  const { namespace, name, model } = order;
  const of = namespace === "" ? {} : { model: `${namespace}/${name}` };
  const state = { ...of, source: publicSource(model.source), phase: "Pending" as const };
  return {
    ...{ order, text: JSON.stringify(order), state, failures: 0 },
    ...{ nextAt: clock.monotonicMs(), end: new AbortController() },
  };
}

/** Not in turn: what is on disk does not wait for another model's download. */
async function findOnDisk(task: Task, { clock, onChange, store }: PrefetcherOptions): Promise<void> {
  const { namespace, model } = task.order;
  // The attempt reports why it cannot be read.
  const stored = await store.resolve(requestFor(model, namespace)).catch(() => undefined);
  if (stored === undefined || task.end.signal.aborted || task.state.phase !== "Pending") return;
  const { sizeBytes, sha256 } = stored;
  task.sha256 = sha256;
  task.state = { ...aboutOf(task), phase: "Ready", bytes: sizeBytes, totalBytes: sizeBytes };
  task.nextAt = clock.monotonicMs() + LOOK_AGAIN_MS;
  onChange();
}

async function attempt(task: Task, options: PrefetcherOptions): Promise<void> {
  const { clock, log, onChange, store, signal } = options;
  const of = aboutOf(task);
  try {
    if (await mustWait(task, options)) return;
    const isReady = task.state.phase === "Ready" && (await isThere(task, store));
    if (!isReady) {
      const { sizeBytes, sha256 } = await fetchOrder(task, options);
      task.sha256 = sha256;
      task.failures = 0;
      task.waits = undefined;
      task.state = { ...of, phase: "Ready", bytes: sizeBytes, totalBytes: sizeBytes };
      log.info({ ...of, sizeBytes }, "model prefetched");
      onChange();
    }
    task.nextAt = clock.monotonicMs() + LOOK_AGAIN_MS;
  } catch (error) {
    if (task.end.signal.aborted || signal.aborted) return;
    await noteFailure(task, error, options);
    onChange();
  }
}

async function mustWait(task: Task, { client, clock, store }: PrefetcherOptions): Promise<boolean> {
  const { waits } = task;
  if (waits === undefined || clock.monotonicMs() >= waits.until) return false;
  if (await isCorrected(waits.for, task.order.namespace, { client, store })) {
    task.failures = 0;
    return false;
  }
  task.nextAt = Math.min(waits.until, clock.monotonicMs() + defaultTimings.correctionMs);
  return true;
}

async function noteFailure(task: Task, error: unknown, { clock, log, store }: PrefetcherOptions) {
  const of = aboutOf(task);
  task.failures += 1;
  const random = Math.random();
  const isKnown = error instanceof MetalbridgeError;
  const delayMs = isKnown
    ? retryDelayMs(error.code, task.failures, { isOnHost: false }, { timings: defaultTimings, random })
    : fetchRetryMs(defaultTimings, task.failures, random);
  const roomBytes = await roomOf(store);
  const by = isKnown
    ? correctedBy(error.code, { isOnHost: false, secret: task.secret, roomBytes })
    : undefined;
  const now = clock.monotonicMs();
  task.waits = by && { for: by, until: now + delayMs };
  task.nextAt = now + (by === undefined ? delayMs : Math.min(delayMs, defaultTimings.correctionMs));
  if (!isKnown) {
    log.error({ ...of, err: error }, "prefetching failed unexpectedly");
    task.state = { ...of, phase: "Pending", reason: "ReplicaStepFailed", message: String(error) };
    return;
  }
  const message = truncate(describeError(error), 1_000);
  if (task.state.message !== message) log.warn({ ...of, code: error.code }, message);
  const phase = RETRYABLE.has(error.code) ? "Pending" : "Failed";
  task.state = { ...of, phase, reason: error.code, message };
}

function aboutOf({ state: { source, model } }: Task): Pick<PrefetchState, "source" | "model"> {
  return model === undefined ? { source } : { source, model };
}

/** One whole copy is enough: of earlier content of the source parts may be gone for good. */
async function isThere({ state, sha256 }: Task, store: PrefetcherOptions["store"]): Promise<boolean> {
  const copies = (await store.list()).filter((one) => one.source === state.source && one.sha256 === sha256);
  return copies.some(({ damaged, verifiedAt }) => !damaged && verifiedAt !== undefined);
}

/** Status shows whole percents: each write goes to every watcher of the Host. */
const STEPS = 20;

async function fetchOrder(task: Task, { store, client, signal, onChange }: PrefetcherOptions) {
  const { namespace, model } = task.order;
  const name = model.secretRef?.name;
  const { version, ...secret } = await readSourceSecret(client, namespace, name);
  task.secret = name === undefined ? undefined : { name, version };
  task.state = { ...aboutOf(task), phase: "Downloading" };
  onChange();
  let step = 0;
  return store.fetch(
    { ...requestFor(model, namespace), ...secret },
    {
      signal: AbortSignal.any([signal, task.end.signal]),
      sparesPrefetched: true,
      tenant: namespace,
      onProgress: ({ bytes, totalBytes }) => {
        const now = totalBytes === undefined ? 0 : Math.floor((bytes * STEPS) / totalBytes);
        if (now === step) return;
        step = now;
        task.state = { ...task.state, bytes, ...(totalBytes === undefined ? {} : { totalBytes }) };
        onChange();
      },
    },
  );
}
