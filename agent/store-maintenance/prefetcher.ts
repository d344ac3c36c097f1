/** Fetches what the cluster wants on this host before any replica does: one model of a namespace at a time, retried until it is there. */
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import type { PrefetchOrder, PrefetchState } from "../../src/api/host.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { truncate } from "../../src/util/text.ts";
import { type Correction, fetchRetryMs, findCorrection } from "../replicas/prepare/corrections.ts";
import { isCorrected, requestFor, storeRoomBytes } from "../replicas/prepare/fetch.ts";
import { readSourceSecret } from "../replicas/secrets/secrets.ts";
import { defaultTimings } from "../replicas/timings.ts";
import type { ModelStore } from "../store/types.ts";
import { RETRYABLE } from "../store/volume.ts";
import { type AwaitSecret, createSecretPoller } from "./secret-poller.ts";

export interface PrefetcherOptions {
  readonly store: Pick<ModelStore, "disk" | "fetch" | "list" | "resolve">;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** How many files this host downloads at once. */
  readonly maxDownloads: number;
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

interface SecretVersion {
  readonly name: string;
  readonly version: string | undefined;
}

interface Task {
  readonly order: PrefetchOrder;
  readonly text: string;
  state: PrefetchState;
  failures: number;
  /** Checksum of the stored copy: the source may have other files. */
  sha256?: string | undefined;
  /** On the monotonic clock. */
  nextAt: number;
  /** What is due then: a download, or a look whether there is something to download. */
  due: "fetch" | "look";
  /** That its last attempt used. */
  secret?: SecretVersion | undefined;
  /** Until then the source is asked again only once there is room. */
  waits?: { readonly for: Correction; readonly until: number } | undefined;
  stopAwaiting: () => void;
  readonly end: AbortController;
}

type Context = PrefetcherOptions & { readonly awaitSecret: AwaitSecret; readonly wake: () => void };

/** Files may have been deleted by hand, evicted, or found damaged. */
const LOOK_AGAIN_MS = 60_000;
/** Beside the namespaces: a replica does not wait behind the prefetches of its own. */
const TENANT = "(prefetch)";

export function createPrefetcher(options: PrefetcherOptions): Prefetcher {
  const { clock, signal } = options;
  /** One for a namespace, so that a source that never ends holds up its own only; replicas need the other places. */
  const most = Math.max(1, Math.floor(options.maxDownloads / 2));
  const tasks = new Map<string, Task>();
  const fetching = new Set<string>();
  let isLooking = false;
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
  const startDue = (task: Task): void => {
    const { namespace } = task.order;
    if (task.due === "look") {
      if (isLooking) return;
      isLooking = true;
      start(task, look(task, context), () => (isLooking = false));
    } else if (!fetching.has(namespace) && fetching.size < most) {
      fetching.add(namespace);
      start(task, attempt(task, context), () => fetching.delete(namespace));
    }
  };
  const run = async (): Promise<void> => {
    while (!signal.aborted && tasks.size > 0) {
      const now = clock.monotonicMs();
      const inTurn = [...tasks.values()].sort((a, b) => a.nextAt - b.nextAt);
      for (const task of inTurn) if (task.nextAt <= now) startDue(task);
      const nextAt = inTurn.find((task) => task.nextAt > now)?.nextAt ?? now + LOOK_AGAIN_MS;
      await waitMs(clock, nextAt - now, AbortSignal.any([signal, waking.signal]));
      if (waking.signal.aborted) waking = new AbortController();
    }
  };
  return {
    want: (orders) => {
      const wanted = new Map(orders.map((order) => [keyOf(order), order]));
      for (const [key, task] of tasks) {
        const order = wanted.get(key);
        if (order !== undefined && JSON.stringify(order) === task.text) continue;
        tasks.delete(key);
        task.stopAwaiting();
        task.end.abort();
      }
      for (const [key, order] of wanted) {
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
    lookAgain: () => {
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
  const of = namespace === "" ? {} : { model: `${namespace}/${name}` };
  const state = { ...of, source: publicSource(model.source), phase: "Pending" as const };
  return {
    order,
    text: JSON.stringify(order),
    state,
    failures: 0,
    nextAt: clock.monotonicMs(),
    due: "fetch",
    stopAwaiting: () => {},
    end: new AbortController(),
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
  lookLater(task, clock);
  onChange();
}

function lookLater(task: Task, clock: Clock): void {
  task.stopAwaiting();
  task.due = "look";
  task.nextAt = clock.monotonicMs() + LOOK_AGAIN_MS;
}

async function attempt(task: Task, context: Context): Promise<void> {
  const { clock, log, onChange } = context;
  const of = aboutOf(task);
  try {
    task.stopAwaiting();
    const { sizeBytes, sha256 } = await fetchOrder(task, context);
    task.sha256 = sha256;
    task.failures = 0;
    task.state = { ...of, phase: "Ready", bytes: sizeBytes, totalBytes: sizeBytes };
    log.info({ ...of, sizeBytes }, "model prefetched");
    lookLater(task, clock);
    onChange();
  } catch (error) {
    await noteFailure(task, error, context);
  }
}

/** Takes no place for downloads: what is there is seen while sources trickle. */
async function look(task: Task, context: Context): Promise<void> {
  const { client, clock, store } = context;
  try {
    if (task.state.phase === "Ready") {
      if (await isThere(task, store)) return lookLater(task, clock);
    } else if (task.waits !== undefined && clock.monotonicMs() < task.waits.until) {
      const isDone = await isCorrected(task.waits.for, task.order.namespace, { client, store });
      task.nextAt = Math.min(task.waits.until, clock.monotonicMs() + defaultTimings.correctionMs);
      if (!isDone) return;
      task.failures = 0;
    }
    task.due = "fetch";
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
  const isKnown = error instanceof MetalbridgeError;
  const by = isKnown
    ? findCorrection(error.code, { isOnHost: false, secret: task.secret, roomBytes })
    : undefined;
  const now = clock.monotonicMs();
  const until = now + fetchRetryMs(defaultTimings, task.failures, Math.random());
  task.due = by?.what === "disk" ? "look" : "fetch";
  task.waits = by && { for: by, until };
  task.nextAt = by?.what === "disk" ? Math.min(until, now + defaultTimings.correctionMs) : until;
  if (by?.what === "secret") awaitCorrection(task, by, context);
  noteError(task, error, log);
  onChange();
}

function awaitCorrection(
  task: Task,
  { name, version }: SecretVersion,
  { awaitSecret, clock, wake }: Context,
) {
  const { namespace } = task.order;
  task.stopAwaiting = awaitSecret({ namespace, name, version }, () => {
    task.failures = 0;
    task.nextAt = clock.monotonicMs();
    wake();
  });
}

function noteError(task: Task, error: unknown, log: Log): void {
  const of = aboutOf(task);
  if (!(error instanceof MetalbridgeError)) {
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
        task.state = { ...task.state, bytes, ...(totalBytes === undefined ? {} : { totalBytes }) };
        onChange();
      },
    },
  );
}
