/** Reads the load of ready pods at an interval, for the live performance of their services. */

import type { Performance } from "../../../src/api/fields/performance.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import {
  addReading,
  type LoadWindow,
  meanPerformance,
  PERFORMANCE_WINDOW_MS,
} from "../../../src/engines/live-performance.ts";
import { ENGINES } from "../../../src/engines/registry.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { type PodProbe, podProbeOf, readPodGauges } from "../../pods/pod-gauges.ts";
import { isReadyPod } from "../../pods/pods.ts";

const EVERY_MS = PERFORMANCE_WINDOW_MS / 2;
/** Timeout for all pods together. The next round starts with the pods that were not read by then. */
const ROUND_TIMEOUT_MS = 20_000;
const MAX_CONCURRENT = 16;

/** The means of a ready pod that reports its load. */
export interface PodLoad {
  readonly pod: Pod;
  readonly runtime: string | undefined;
  readonly performance: Performance;
}

export interface PodLoads {
  /** Loads of these pods; undefined until pods were read twice, which the means need. */
  readonly of: (pods: readonly Pod[]) => readonly PodLoad[] | undefined;
}

export interface PodLoadsOptions {
  readonly pods: () => readonly Pod[];
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with `namespace/name` of the services that have pods, after they were read. */
  readonly onRead: (services: readonly string[]) => void;
}

/** Reads until `signal` is aborted. Pods that cannot be reached, and those whose metrics need a key, have no load. */
export function startPodLoads({ pods, clock, signal, onRead }: PodLoadsOptions): PodLoads {
  let windows: ReadonlyMap<string, LoadWindow> = new Map();
  let rounds = 0;
  /** Index of the first pod of the next round. */
  let first = 0;
  let cancel = (): void => undefined;
  const round = async (): Promise<void> => {
    const end = AbortSignal.any([signal, AbortSignal.timeout(ROUND_TIMEOUT_MS)]);
    const startedAt = clock.monotonicMs();
    const next = new Map<string, LoadWindow>();
    const services = new Set<string>();
    const all = pods();
    const pending = [...all.slice(first), ...all.slice(0, first)].values();
    let begun = 0;
    const work = async () => {
      for (const pod of pending) {
        if (!end.aborted) begun += 1;
        const window = await read(pod, windows.get(uidOf(pod)) ?? [], clock, end);
        if (window !== undefined) next.set(uidOf(pod), window);
        services.add(serviceKeyOf(pod));
      }
    };
    await Promise.all(Array.from({ length: MAX_CONCURRENT }, work));
    if (signal.aborted) return;
    windows = next;
    rounds += 1;
    first = (first + begun) % Math.max(1, all.length);
    if (rounds > 1) onRead([...services]);
    cancel = clock.after(Math.max(0, startedAt + EVERY_MS - clock.monotonicMs()), () => void round());
  };
  signal.addEventListener("abort", () => cancel(), { once: true });
  void round();
  return {
    of: (some) => (rounds < 2 ? undefined : some.flatMap((pod) => loadOf(pod, windows, clock) ?? [])),
  };
}

/** Undefined if the pod reports no load. A failed reading changes nothing, so that the means end after two minutes of failures. */
async function read(
  pod: Pod,
  before: LoadWindow,
  clock: Clock,
  end: AbortSignal,
): Promise<LoadWindow | undefined> {
  if (end.aborted) return before;
  const probe = isReadyPod(pod) && !isBeingDeleted(pod) ? podProbeOf(pod) : undefined;
  if (probe === undefined || probe.isProtected) return undefined;
  const { path, names } = probe;
  const { generatedTokens, firstToken } = engineOfProbe(probe)?.pod?.metrics ?? {};
  const tokens = generatedTokens === undefined ? [] : [generatedTokens];
  const [sum, count] = firstToken === undefined ? [[], []] : [[`${firstToken}_sum`], [`${firstToken}_count`]];
  const gauges = await readPodGauges(pod, path, [...names, ...tokens, ...sum, ...count], { end });
  if (gauges === undefined) return before;
  const sumOf = (some: readonly string[]) => (some.length === 0 ? undefined : gauges.sum(some));
  return addReading(before, {
    at: clock.monotonicMs(),
    inFlight: gauges.sum(names),
    generatedTokens: sumOf(tokens),
    firstTokens: sumOf(count),
    firstTokenSeconds: sumOf(sum),
  });
}

function loadOf(pod: Pod, windows: ReadonlyMap<string, LoadWindow>, clock: Clock): PodLoad | undefined {
  const probe = podProbeOf(pod);
  const window = windows.get(uidOf(pod)) ?? [];
  const [first] = window;
  // The first reading of a new pod, so that its requests are known before there is a mean.
  const sample = first && { requestsInFlight: first.inFlight };
  const performance = meanPerformance(window, clock.monotonicMs()) ?? sample;
  if (probe === undefined || performance === undefined) return undefined;
  return { pod, performance, runtime: engineOfProbe(probe)?.runtime };
}

/** By the gauges in the pod's annotation, because the service may have another runtime than the pod. */
function engineOfProbe({ names }: PodProbe) {
  return ENGINES.find(({ pod }) => pod?.metrics?.inFlight.join() === names.join());
}

/** `namespace/name` of the service, as the pod's label states it. */
export function serviceKeyOf({ metadata }: Pod): string {
  return keyOf({ ...metadata, name: metadata.labels?.[LABEL_SERVICE] ?? "" });
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? keyOf(metadata);
}
