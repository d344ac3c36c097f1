/** The definitions of the kinds that watch service level objectives. Many clusters lack them; they may be installed at any time. */
import { PROMETHEUS_RULES, SERVICE_LEVEL_OBJECTIVES } from "../../../src/kube/kinds.ts";
import type { Reflector } from "../../../src/kube/types.ts";
import type { KindDefinition } from "../../../src/kube/workload-objects.ts";
import type { Emit, StartWatch } from "./contract.ts";
import { definitionWatch, kindStateOf } from "./group-kind.ts";

const KINDS = { objectives: SERVICE_LEVEL_OBJECTIVES, prometheusRules: PROMETHEUS_RULES };

export type ObjectiveObject = keyof typeof KINDS;

export interface ObjectiveWatches {
  /** Without their schemas. */
  readonly objectiveKinds: { readonly [K in ObjectiveObject]: Reflector<KindDefinition> };
}

type ObjectWatches = { readonly [K in ObjectiveObject]: Pick<Reflector<never>, "isSynced"> };

export const OBJECTIVE_OBJECTS = Object.keys(KINDS) as readonly ObjectiveObject[];

/** `onInstalled` is called when a kind was installed, before the services are reconciled. */
export function startObjectiveWatches(
  start: StartWatch,
  emit: Emit,
  onInstalled: (what: ObjectiveObject) => void,
): ObjectiveWatches {
  const startOne = (what: ObjectiveObject) =>
    start({
      ...definitionWatch(KINDS[what]),
      onChange: () => {
        if (isInstalled(watches, what)) onInstalled(what);
        emit((on) => on.onKind());
      },
      onSynced: () => emit((on) => on.onKind()),
    });
  const watches: ObjectiveWatches = {
    objectiveKinds: { objectives: startOne("objectives"), prometheusRules: startOne("prometheusRules") },
  };
  return watches;
}

export function isInstalled({ objectiveKinds }: ObjectiveWatches, what: ObjectiveObject): boolean {
  return kindStateOf(objectiveKinds[what], KINDS[what]).at === "installed";
}

/** The kind to create: Pyrra's, which makes the rules itself, else rules. Unknown until the objects of installed kinds are in the cache. */
export function objectiveKindOf(
  watches: ObjectiveWatches & ObjectWatches,
): ObjectiveObject | "missing" | "unknown" {
  const { objectiveKinds } = watches;
  if (!OBJECTIVE_OBJECTS.every((what) => objectiveKinds[what].isSynced())) return "unknown";
  const installed = OBJECTIVE_OBJECTS.filter((what) => isInstalled(watches, what));
  if (!installed.every((what) => watches[what].isSynced())) return "unknown";
  return installed[0] ?? "missing";
}
