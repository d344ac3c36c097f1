/** Reads from the logs of engines whether they use their GPUs, once for each start of a ready pod. */

import { ENGINE_CONTAINER } from "../../src/api/group.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { Offloaded } from "../../src/engines/contract/pod.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { engineOf, isReadyPod } from "./pods.ts";

export type ParseOffload = (log: string) => Offloaded | undefined;

/** Result for one ready pod. `offloaded` is undefined if the log lacks it or cannot be read. */
export interface PodOffload {
  readonly pod: string;
  readonly offloaded?: Offloaded;
}

export interface OffloadReader {
  /** Returns the known results of the ready pods of a service, and starts to read the others. */
  readonly read: (key: string, pods: readonly Pod[], parse: ParseOffload) => Offload;
  readonly forget: (key: string) => void;
}

export interface Offload {
  readonly known: readonly PodOffload[];
  /** Ready pods whose logs are still being read. */
  readonly unread: number;
}

export interface OffloadOptions {
  readonly connection: Pick<KubeConnection, "request">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called with `namespace/name` of a service when the log of one of its pods has been read. */
  readonly onRead: (key: string) => void;
}

/** Enough for the lines of a start, which come before those of requests. */
const LOG_BYTES = 256 << 10;
const READ_MS = 15_000;
/** Several at the same time, so that a node whose kubelet does not answer delays the others only briefly. */
const MAX_CONCURRENT = 16;
/** A kubelet may be unreachable for a moment. After this many attempts, only a new start is read again. */
const ATTEMPTS = 3;
const PAUSE_MS = 20_000;

type Reading = PodOffload | "reading";

interface PendingRead {
  readonly key: string;
  readonly pod: Pod;
  readonly parse: ParseOffload;
  /** True while the service still has this start of the engine. */
  readonly isCurrent: () => boolean;
}

/** Reads nothing before the first call of `read`. */
export function createOffloadReader(options: OffloadOptions): OffloadReader {
  const services = new Map<string, Map<string, Reading>>();
  const limited = createLimit();
  const read = async (reading: PendingRead, attempt: number): Promise<void> => {
    const { key, pod, parse, isCurrent } = reading;
    if (!isCurrent()) return;
    const answer = await readLog(options, pod);
    if (!isCurrent()) return;
    if (!answer.ok && attempt < ATTEMPTS) {
      options.clock.after(PAUSE_MS, () => limited(() => read(reading, attempt + 1)));
      return;
    }
    const { namespace, name } = pod.metadata;
    const offloaded = answer.ok ? parse(answer.value) : undefined;
    if (!answer.ok) {
      const reason = answer.error.message;
      options.log.info({ pod: `${namespace}/${name}`, reason }, "cannot read the log of an engine");
    }
    services.get(key)?.set(startOf(pod), { pod: name, offloaded });
    options.onRead(key);
  };
  return {
    read: (key, pods, parse) => {
      const before = services.get(key);
      const ready = pods.filter((pod) => !isBeingDeleted(pod) && isReadyPod(pod));
      const starts = new Map(ready.map((pod) => [startOf(pod), before?.get(startOf(pod)) ?? "reading"]));
      services.set(key, starts);
      for (const pod of ready) {
        const start = startOf(pod);
        if (before?.has(start) === true) continue;
        const isCurrent = () => services.get(key)?.has(start) === true && !options.signal.aborted;
        limited(() => read({ key, pod, parse, isCurrent }, 1));
      }
      const known = [...starts.values()].filter((reading) => reading !== "reading");
      return { known, unread: starts.size - known.length };
    },
    forget: (key) => services.delete(key),
  };
}

/** Limits the number of concurrent tasks, which must not reject. */
function createLimit(): (task: () => Promise<void>) => void {
  const waiting: (() => Promise<void>)[] = [];
  let running = 0;
  const next = (): void => {
    const task = running < MAX_CONCURRENT ? waiting.shift() : undefined;
    if (task === undefined) return;
    running += 1;
    void task().finally(() => {
      running -= 1;
      next();
    });
  };
  return (task) => {
    waiting.push(task);
    next();
  };
}

/** A key that changes with each start of the engine. */
function startOf(pod: Pod): string {
  return `${pod.metadata.uid} ${engineOf(pod)?.restartCount ?? 0}`;
}

/** Reads the first lines of the current container. */
function readLog({ connection, signal }: OffloadOptions, { metadata: { namespace, name } }: Pod) {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log?container=${ENGINE_CONTAINER}&limitBytes=${LOG_BYTES}`;
  return connection.request({ method: "GET", path, timeoutMs: READ_MS, signal });
}
