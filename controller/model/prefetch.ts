/** How many of the hosts that are to have a Model have it, and what keeps the others. Pure. */
import { type Condition, removeCondition, setCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { isPrefetched, isPrefetchHost, modelsWithoutRoom } from "../../src/capacity/prefetch.ts";
import { truncate } from "../../src/util/text.ts";

export const PREFETCHED = "Prefetched";

export interface PrefetchAssessment {
  /** Undefined where no host is to prefetch the Model. */
  readonly prefetch: ModelStatus["prefetch"];
  readonly conditions: Condition[] | undefined;
}

export function assessPrefetch(
  model: Model,
  hosts: readonly Host[],
  conditions: readonly Condition[] | undefined,
  nowIso: string,
): PrefetchAssessment {
  if (!isPrefetched(model))
    return { prefetch: undefined, conditions: removeCondition(conditions, PREFETCHED) };
  const key = keyOf(model.metadata);
  const chosen = hosts
    .filter((host) => isPrefetchHost(model, host))
    .sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
  const wanted = chosen.map((host) => ({
    name: host.metadata.name,
    state: host.status?.prefetch?.models?.find((one) => one.model === key),
  }));
  const ready = wanted.filter(({ state }) => state?.phase === "Ready").length;
  const failed = wanted.find(({ state }) => state?.reason !== undefined);
  const counts = `${ready} of ${wanted.length} hosts have it`;
  const update = (status: Condition["status"], reason: string, message: string) => ({
    prefetch: { wanted: wanted.length, ready, summary: `${ready}/${wanted.length}` },
    conditions: setCondition(
      conditions,
      { type: PREFETCHED, status, reason, message, observedGeneration: model.metadata.generation },
      nowIso,
    ),
  });
  if (wanted.length === 0) return update("False", "NoHostSelected", noHost(model));
  if (ready === wanted.length) return update("True", "PrefetchComplete", counts);
  const full = chosen.find((host) => modelsWithoutRoom(host, [model]).length > 0);
  if (full !== undefined) return update("False", "PrefetchListFull", `${counts}; ${noRoom(full)}`);
  if (failed?.state?.reason === undefined) return update("Unknown", "Prefetching", counts);
  const why = `${counts}; host ${failed.name}: ${failed.state.message ?? failed.state.reason}`;
  return update("False", failed.state.reason, truncate(why, 4_000));
}

function noRoom({ metadata }: Host): string {
  return `host ${metadata.name} has no room for another Model to prefetch: the limit is 256 Models and 256 KiB of names of their files, shared by all namespaces alike. Prefetch fewer Models there, or Models with fewer files`;
}

function noHost({ spec }: Model): string {
  return spec.prefetchHosts === undefined
    ? "no host has a runtime and the memory for the model; name the hosts in spec.prefetchHosts"
    : "spec.prefetchHosts selects no host: correct its names, or label the hosts";
}
