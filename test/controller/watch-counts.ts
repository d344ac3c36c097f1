/** How many replicas of a namespace there are and serve, over time. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { quietLog } from "../cluster/quiet-log.ts";

/** How many slots had a Ready replica, and how many replicas there were, over time. */
export function watchCounts(
  connection: KubeConnection,
  namespace: string,
): { readonly stop: () => { fewestReady: number; mostLive: number } } {
  const ends = new AbortController();
  const seen = new Map<string, InferenceReplica>();
  const counts = { fewestReady: Number.POSITIVE_INFINITY, mostLive: 0 };
  const note = () => {
    const here = [...seen.values()].filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const ready = new Set(
      here
        .filter(({ status }) => status?.phase === "Ready")
        .map(({ metadata }) => metadata.name.replace(/-\w+$/, "")),
    );
    counts.fewestReady = Math.min(counts.fewestReady, ready.size);
    counts.mostLive = Math.max(counts.mostLive, here.length);
  };
  let isSynced = false;
  const { whenSynced } = startReflector<InferenceReplica>({
    connection,
    clock: systemClock,
    log: quietLog,
    signal: ends.signal,
    kind: INFERENCE_REPLICAS,
    namespace,
    onChange: (key, replica) => {
      if (replica === undefined) seen.delete(key);
      else seen.set(key, replica);
      if (isSynced) note();
    },
    onSynced: () => {
      isSynced = true;
      note();
    },
  });
  void whenSynced();
  return {
    stop: () => {
      ends.abort();
      return counts;
    },
  };
}
