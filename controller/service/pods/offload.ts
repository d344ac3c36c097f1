/** What engines say in their logs about the GPUs that they were given: read once for each start of a ready pod. */
import type { Offloaded } from "../../../src/engines/contract/pod.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { ENGINE_CONTAINER } from "../../workload/container.ts";
import { engineOf, isReadyPod } from "./pods.ts";

export type ParseOffload = (log: string) => Offloaded | undefined;

/** Of one ready pod. `offloaded` is undefined if its log does not say, or cannot be read. */
export interface PodOffload {
  readonly pod: string;
  readonly offloaded?: Offloaded;
}

export interface OffloadReader {
  /** What is known of the ready pods of a service; starts to read what is not. Undefined for a pod: not read yet. */
  readonly look: (key: string, pods: readonly Pod[], parse: ParseOffload) => Offload;
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
  /** `namespace/name` of a service: one of its pods has been read. */
  readonly onRead: (key: string) => void;
}

/** Lines of a start; requests come after them. */
const LOG_BYTES = 256 << 10;
const READ_MS = 15_000;
/** At once: a node whose kubelet does not answer must not hold up the others for long. */
const MOST = 16;
/** A kubelet may be away for a moment; then only a new start of the container is worth another read. */
const ATTEMPTS = 3;
const PAUSE_MS = 20_000;

type Reading = PodOffload | "reading";

interface Wanted {
  readonly key: string;
  readonly pod: Pod;
  readonly parse: ParseOffload;
  /** The same start of the engine is still there. */
  readonly isWanted: () => boolean;
}

/** Nothing is read before the first `look`. */
export function createOffloadReader(options: OffloadOptions): OffloadReader {
  const services = new Map<string, Map<string, Reading>>();
  const limited = createLimit();
  const read = async (reading: Wanted, attempt: number): Promise<void> => {
    const { key, pod, parse, isWanted } = reading;
    if (!isWanted()) return;
    const answer = await readLog(options, pod);
    if (!isWanted()) return;
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
    look: (key, pods, parse) => {
      const before = services.get(key);
      const ready = pods.filter((pod) => pod.metadata.deletionTimestamp === undefined && isReadyPod(pod));
      const starts = new Map(ready.map((pod) => [startOf(pod), before?.get(startOf(pod)) ?? "reading"]));
      services.set(key, starts);
      for (const pod of ready) {
        const start = startOf(pod);
        if (before?.has(start) === true) continue;
        const isWanted = () => services.get(key)?.has(start) === true && !options.signal.aborted;
        limited(() => read({ key, pod, parse, isWanted }, 1));
      }
      const known = [...starts.values()].filter((reading) => reading !== "reading");
      return { known, unread: starts.size - known.length };
    },
    forget: (key) => services.delete(key),
  };
}

/** Runs at most so many tasks at once; none of them rejects. */
function createLimit(): (task: () => Promise<void>) => void {
  const waiting: (() => Promise<void>)[] = [];
  let running = 0;
  const next = (): void => {
    const task = running < MOST ? waiting.shift() : undefined;
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

/** Changes with each start of the engine. */
function startOf(pod: Pod): string {
  return `${pod.metadata.uid} ${engineOf(pod)?.restartCount ?? 0}`;
}

/** The first lines of the container that runs now. */
function readLog({ connection, signal }: OffloadOptions, { metadata: { namespace, name } }: Pod) {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log?container=${ENGINE_CONTAINER}&limitBytes=${LOG_BYTES}`;
  return connection.request({ method: "GET", path, timeoutMs: READ_MS, signal });
}
