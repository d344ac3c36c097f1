/** Assesses prefetching of a Model: how many selected hosts have it, and why the others do not. Pure. */
import { type Condition, removeCondition, setCondition } from "../../src/api/conditions.ts";
import type { Host } from "../../src/api/host.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { isPrefetched, isPrefetchHost, modelsWithoutRoom } from "../../src/capacity/prefetch.ts";
import { truncate } from "../../src/util/text.ts";

export const PREFETCHED = "Prefetched";

export interface PrefetchAssessment {
  /** Undefined if no host prefetches the Model. */
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
  const states = chosen.map((host) => ({
    name: host.metadata.name,
    state: host.status?.prefetch?.models?.find((one) => one.model === key),
  }));
  const ready = states.filter(({ state }) => state?.phase === "Ready").length;
  const failed = states.find(({ state }) => state?.reason !== undefined);
  const counts = `${ready} of ${states.length} hosts have it`;
  const update = (status: Condition["status"], reason: string, message: string) => ({
    prefetch: { wanted: states.length, ready, summary: `${ready}/${states.length}` },
    conditions: setCondition(
      conditions,
      { type: PREFETCHED, status, reason, message, observedGeneration: model.metadata.generation },
      nowIso,
    ),
  });
  if (states.length === 0) return update("False", "NoHostSelected", noHost(model));
  if (ready === states.length) return update("True", "PrefetchComplete", counts);
  const full = chosen.find((host) => modelsWithoutRoom(host, [model]).length > 0);
  if (full !== undefined) return update("False", "PrefetchListFull", `${counts}; ${noRoom(full)}`);
  if (failed?.state?.reason === undefined) return update("Unknown", "Prefetching", counts);
  const message = `${counts}; host ${failed.name}: ${failed.state.message ?? failed.state.reason}`;
  return update("False", failed.state.reason, truncate(message, 4_000));
}

function noRoom({ metadata }: Host): string {
  return `host ${metadata.name} has no room for another Model to prefetch: the limit is 256 Models and 256 KiB of names of their files, shared by all namespaces. Prefetch fewer Models there, or Models with fewer files`;
}

function noHost({ spec }: Model): string {
  return spec.prefetchHosts === undefined
    ? "no host has a runtime and the memory for the model; name the hosts in spec.prefetchHosts"
    : "spec.prefetchHosts selects no host: correct its names, or label the hosts";
}
