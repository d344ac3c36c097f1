/** Applies a flavor to the settings of a service. Pure. */
import type { LabelSelector } from "../../api/fields/kubernetes.ts";
import type { Flavor } from "../../api/flavors.ts";
import type { InferenceService, InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import type { InheritedArguments } from "../../engines/contract/arguments.ts";

type Arguments = Pick<InferenceServiceSpec, "args" | "extraArgs">;

/** Arguments of a flavor come before those of the service, so that the last one, which counts, is the service's. */
export function withArguments(
  { runtime, args, extraArgs }: Pick<InferenceServiceSpec, "runtime" | keyof Arguments>,
  params: Flavor["params"],
  /** Engine of the BackendRuntime, if the service names one. */
  engine: string | undefined = runtime,
): Arguments {
  const own = params?.args ?? [];
  if (own.length === 0) return { args, extraArgs };
  return engine === "generic"
    ? { args: [...own, ...(args ?? [])], extraArgs }
    : { args, extraArgs: [...own, ...(extraArgs ?? [])] };
}

/** The arguments in front of those of the service, once its flavor is applied. */
export function argumentsOfFlavor(
  { extraArgs = [] }: Arguments,
  applied: Arguments,
  { name }: Partial<Pick<Flavor, "name">> = {},
): InheritedArguments {
  const count = (applied.extraArgs ?? []).length - extraArgs.length;
  return { origin: name === undefined ? "args of its flavor" : `args of flavor ${name}`, count };
}

/** The service on the hosts of a flavor, which must match the service's own selector too. Its arguments are those of the service. */
export function onHostsOf(service: InferenceService, { hostSelector }: Flavor): InferenceService {
  const { placement } = service.spec;
  const both = bothSelectors(placement.hostSelector, hostSelector);
  return {
    ...service,
    spec: { ...service.spec, placement: { ...placement, on: "Hosts", hostSelector: both } },
  };
}

/** The service on the hosts of the flavor in its status, if it is one for hosts. */
export function onLastFlavor(service: InferenceService, model: Pick<Model, "spec">): InferenceService {
  const last = model.spec.flavors?.find(({ name }) => name === service.status?.flavor?.name);
  return last?.hostSelector === undefined ? service : onHostsOf(service, last);
}

/** Matches what both match. */
export function bothSelectors(own: LabelSelector | undefined, other: LabelSelector = {}): LabelSelector {
  if (own === undefined) return other;
  const labels = Object.entries(other.matchLabels ?? {});
  return {
    matchLabels: own.matchLabels,
    matchExpressions: [
      ...(own.matchExpressions ?? []),
      ...(other.matchExpressions ?? []),
      ...labels.map(([key, value]) => ({ key, operator: "In" as const, values: [value] })),
    ],
  };
}
