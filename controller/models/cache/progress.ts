/** Follows the logs of download pods for their progress. */
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import { createLineSplitter } from "../../../src/kube/watch/lines.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import { FETCH_CONTAINER } from "../../pods/workload/model-cache.ts";

export interface DownloadProgress {
  readonly bytes: number;
  readonly totalBytes?: number;
}

export interface DownloadFollower {
  /** Last progress of a pod; undefined before its first line. */
  readonly of: (pod: Pod) => DownloadProgress | undefined;
  /** Starts to follow the log of a running pod. Idempotent. */
  readonly follow: (pod: Pod, model: string) => void;
  readonly forget: (pod: Pod | undefined) => void;
}

export interface DownloadFollowerOptions {
  readonly connection: Pick<KubeConnection, "stream">;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called when the Model's download has advanced, at most every ten seconds. */
  readonly onProgress: (model: string) => void;
}

interface Followed {
  readonly namespace: string | undefined;
  readonly stop: AbortController;
  last?: DownloadProgress;
  notedAtMs?: number;
}

const NOTE_MS = 10_000;
const OPEN_MS = 15_000;
/** Maximum connections to the API server. Further downloads show no progress. */
const MAX_FOLLOWED = 64;
const MAX_PER_NAMESPACE = 8;
const MAX_LINE_BYTES = 64 << 10;
/** Maximum bytes of one log. A download that takes a day writes a third of that. */
const MAX_LOG_BYTES = 16 << 20;

export function createDownloadFollower(options: DownloadFollowerOptions): DownloadFollower {
  const followed = new Map<string, Followed>();
  return {
    of: ({ metadata }) => followed.get(metadata.uid ?? "")?.last,
    follow: (pod, model) => {
      const uid = pod.metadata.uid ?? "";
      const { namespace } = pod.metadata;
      const others = [...followed.values()].filter((other) => other.namespace === namespace);
      if (followed.has(uid) || followed.size >= MAX_FOLLOWED || others.length >= MAX_PER_NAMESPACE) return;
      const one: Followed = { stop: new AbortController(), namespace };
      followed.set(uid, one);
      void read(options, pod, one, model);
    },
    forget: (pod) => {
      const uid = pod?.metadata.uid ?? "";
      followed.get(uid)?.stop.abort();
      followed.delete(uid);
    },
  };
}

/** Returns when the container exits or the connection breaks. The last progress then stays until the pod ends. Never rejects. */
async function read(options: DownloadFollowerOptions, pod: Pod, one: Followed, model: string): Promise<void> {
  const { connection, clock, log, onProgress } = options;
  const { namespace, name } = pod.metadata;
  const signal = AbortSignal.any([options.signal, one.stop.signal]);
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log?container=${FETCH_CONTAINER}&follow=true&tailLines=1`;
  const opened = await connection.stream({ method: "GET", path, timeoutMs: OPEN_MS, signal });
  if (!opened.ok) {
    log.info(
      { pod: `${namespace}/${name}`, reason: opened.error.message },
      "cannot follow the log of a download",
    );
    return;
  }
  const splitter = createLineSplitter(MAX_LINE_BYTES);
  let bytes = 0;
  try {
    for await (const chunk of opened.value as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MAX_LOG_BYTES) return;
      const progress = splitter
        .push(chunk)
        .map(parseProgress)
        .findLast((line) => line !== undefined);
      if (progress === undefined) continue;
      one.last = progress;
      const nowMs = clock.monotonicMs();
      if (one.notedAtMs !== undefined && nowMs - one.notedAtMs < NOTE_MS) continue;
      one.notedAtMs = nowMs;
      onProgress(model);
    }
  } catch {
    // The connection broke, or a line exceeds MAX_LINE_BYTES.
  } finally {
    opened.value.destroy();
  }
}

/** Undefined for other lines of the log. */
function parseProgress(line: string): DownloadProgress | undefined {
  try {
    const { bytes, totalBytes } = JSON.parse(line) as Record<string, unknown>;
    if (!isCount(bytes)) return undefined;
    return isCount(totalBytes) ? { bytes, totalBytes } : { bytes };
  } catch {
    return undefined;
  }
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
