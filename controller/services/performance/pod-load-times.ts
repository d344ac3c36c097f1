/** How long pods took to load their models, by the times in their status, which are whole seconds. */
import { ENGINE_CONTAINER } from "../../../src/api/group.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { HistogramSample, Labels } from "../../../src/http/metrics/family.ts";
import { createLoadTimes } from "../../../src/http/metrics/live.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { FETCH_CONTAINER } from "../../pods/workload/model-cache.ts";

export interface PodLoadTimes {
  /** Counts the engines that have become ready since the last call, and returns the times of all that were counted. */
  readonly read: (
    pods: readonly Pod[],
    labelsOf: (pod: Pod) => Labels | undefined,
  ) => readonly HistogramSample[];
}

/** Engines that are ready at the first call are not counted: another leader may have counted them. */
export function createPodLoadTimes(): PodLoadTimes {
  const times = createLoadTimes();
  /** Start of the engine that was counted, by the pod. */
  let counted: ReadonlyMap<string, string> | undefined;
  const observe = (load: Load, labels: Labels, isFirst: boolean): void => {
    times.observe({ ...labels, phase: "start" }, load.startSeconds);
    // A restarted engine finds the weights.
    if (isFirst && load.pullSeconds !== undefined)
      times.observe({ ...labels, phase: "pull" }, load.pullSeconds);
  };
  return {
    read: (pods, labelsOf) => {
      const next = new Map<string, string>();
      for (const pod of pods) {
        const key = pod.metadata.uid ?? keyOf(pod.metadata);
        const before = counted?.get(key);
        const load = loadOf(pod);
        const startedAt = load?.startedAt ?? before;
        if (startedAt !== undefined) next.set(key, startedAt);
        const isNew = counted !== undefined && startedAt !== before;
        const labels = isNew ? labelsOf(pod) : undefined;
        if (load !== undefined && labels !== undefined) observe(load, labels, before === undefined);
      }
      counted = next;
      return [...times.samples()];
    },
  };
}

interface Load {
  readonly startedAt: string;
  readonly startSeconds: number;
  readonly pullSeconds: number | undefined;
}

/** Undefined until the pod is ready. */
function loadOf({ status }: Pod): Load | undefined {
  const engine = status?.containerStatuses?.find(({ name }) => name === ENGINE_CONTAINER);
  const { startedAt } = engine?.state?.running ?? {};
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  if (startedAt === undefined || ready?.status !== "True") return undefined;
  const startSeconds = secondsBetween(startedAt, ready.lastTransitionTime);
  const pulls = (status?.initContainerStatuses ?? []).flatMap(({ name, state }) =>
    name === FETCH_CONTAINER || name.startsWith(`${FETCH_CONTAINER}-`) ? [state?.terminated] : [],
  );
  const pullSeconds = pulls
    .map((end) => secondsBetween(end?.startedAt, end?.finishedAt))
    .reduce<number | undefined>((sum, one) => (one === undefined ? sum : (sum ?? 0) + one), undefined);
  // A pod that became ready before its engine started is one whose engine has restarted since.
  return startSeconds === undefined ? undefined : { startedAt, startSeconds, pullSeconds };
}

function secondsBetween(from: string | undefined, to: string | undefined): number | undefined {
  const ms = Date.parse(to ?? "") - Date.parse(from ?? "");
  return ms >= 0 ? ms / 1_000 : undefined;
}
