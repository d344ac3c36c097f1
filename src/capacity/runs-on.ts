/** Determines whether a service runs as engines on hosts or as pods. Pure. */

import { z } from "zod";
import { type Accelerator, DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import { type LabelSelector, labelSelectorSchema, selectorMatches } from "../api/fields/kubernetes.ts";
import type { Flavor } from "../api/flavors.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { RunsOn } from "../api/inference-service/rollout.ts";
import type { Model } from "../api/model.ts";
import { bothSelectors } from "./flavors/apply.ts";
import { flavorsOf, platformOfFlavor } from "./flavors/narrow.ts";

/** The fields that decide between hosts and pods. They may lack the defaults of the API server. */
interface Placed {
  readonly spec: Pick<InferenceServiceSpec, "flavors" | "nodeSelector" | "affinity"> & {
    readonly placement?: Partial<InferenceServiceSpec["placement"]> | undefined;
  };
}

/**
 * spec.placement.on, else where the flavors of the Model are, else according to the accelerator of the Model; undefined if none of
 * them is known.
 */
export function runsOn({ spec }: Placed, model: Model | undefined): RunsOn | undefined {
  const on = spec.placement?.on;
  const [first, ...others] = new Set(flavorsOf(spec, model)?.flavors.map(platformOfFlavor));
  if (first !== undefined && (on === undefined || on === "Auto")) return others.length > 0 ? "Auto" : first;
  if (on !== undefined) return on;
  return model && platformOf(model);
}

const PLACES: Readonly<Record<RunsOn, string>> = {
  Hosts: "runs on hosts",
  Pods: "runs in pods on Linux nodes",
  Auto: "runs on hosts and in pods on Linux nodes",
};

/** "runs in pods on Linux nodes, because the accelerator of Model chat is cpu"; undefined if flavors decide. */
export function placeReason(service: Placed, model: Model): string | undefined {
  const { spec } = service;
  if (flavorsOf(spec, model) !== undefined) return undefined;
  const stated = spec.placement?.on;
  const { accelerator = DEFAULT_MODEL_ACCELERATOR } = model.spec.hardware ?? {};
  const place = PLACES[stated ?? platformOf(model)];
  return stated === undefined
    ? `${place}, because the accelerator of Model ${model.metadata.name} is ${accelerator}`
    : `${place}, because spec.placement.on is ${stated}`;
}

/** Machines that a service can use at all. */
export interface UsableMachines {
  readonly on: RunsOn;
  /** Accelerator of the nodes; undefined for any. */
  readonly accelerator?: Accelerator | undefined;
  /** Names of the hosts; undefined for any. */
  readonly hosts?: readonly string[] | undefined;
  /** A host must match one of these; undefined for any host. */
  readonly hostSelectors?: readonly LabelSelector[] | undefined;
  /** A node must match one of these; undefined for any node. */
  readonly nodeSelectors?: readonly LabelSelector[] | undefined;
}

export function usableMachines(service: Placed, model: Model): UsableMachines {
  const on = runsOn(service, model) ?? platformOf(model);
  const { accelerator = DEFAULT_MODEL_ACCELERATOR } = model.spec.hardware ?? {};
  const flavors = flavorsOf(service.spec, model)?.flavors;
  const where = { on, ...labelsOf(service, flavors) };
  if (on === "Hosts" || flavors !== undefined || accelerator === "vulkan") return where;
  // Pods without a GPU use the processor.
  return { ...where, accelerator: accelerator === "metal" ? "cpu" : accelerator };
}

export function isUsable(
  { kind, name, labels }: { readonly kind: "Host" | "Node" } & Labeled,
  { on, hosts, hostSelectors, nodeSelectors }: Partial<UsableMachines>,
): boolean {
  const matches = (selectors: readonly LabelSelector[] | undefined): boolean =>
    selectors?.some((selector) => selectorMatches(selector, labels)) ?? true;
  if (kind === "Node") return on !== "Hosts" && matches(nodeSelectors);
  return on !== "Pods" && (hosts?.includes(name) ?? true) && matches(hostSelectors);
}

interface Labeled {
  readonly name: string;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

/** The part of an affinity that a label selector can express: Gt, Lt and matchFields narrow nothing here. */
const requiredTermsSchema = z
  .object({
    nodeAffinity: z.object({
      requiredDuringSchedulingIgnoredDuringExecution: z.object({
        nodeSelectorTerms: z.array(labelSelectorSchema.catch({})).min(1),
      }),
    }),
  })
  .transform(({ nodeAffinity }) => nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution)
  .transform(({ nodeSelectorTerms }) => nodeSelectorTerms);

/** The machines that names and labels leave. Values that the API server will refuse narrow nothing. */
function labelsOf(
  { spec: { placement, nodeSelector, affinity } }: Placed,
  flavors: readonly Flavor[] | undefined,
): Pick<UsableMachines, "hosts" | "hostSelectors" | "nodeSelectors"> {
  const read = (selector: unknown) => labelSelectorSchema.safeParse(selector ?? {}).data ?? {};
  const on = (platform: Exclude<RunsOn, "Auto">): readonly Partial<Flavor>[] =>
    flavors?.filter((flavor) => platformOfFlavor(flavor) === platform) ?? [{}];
  const ofPods = read({ matchLabels: nodeSelector });
  const terms = requiredTermsSchema.safeParse(affinity).data ?? [{}];
  return {
    hosts: placement?.hosts?.length ? placement.hosts : undefined,
    hostSelectors: narrowing(
      on("Hosts").map((flavor) => bothSelectors(read(placement?.hostSelector), flavor.hostSelector)),
    ),
    nodeSelectors: narrowing(
      on("Pods").flatMap((flavor) =>
        terms.map((term) => bothSelectors(bothSelectors(ofPods, { matchLabels: flavor.nodeSelector }), term)),
      ),
    ),
  };
}

/** Undefined if one of them matches everything. */
function narrowing(selectors: readonly LabelSelector[]): readonly LabelSelector[] | undefined {
  const isWide = ({ matchLabels = {}, matchExpressions = [] }: LabelSelector) =>
    Object.keys(matchLabels).length + matchExpressions.length === 0;
  return selectors.some(isWide) ? undefined : selectors;
}

/** Platform of a Model if its services do not choose one: the default accelerator exists on hosts only. */
export function platformOf({ spec }: Pick<Model, "spec">): Exclude<RunsOn, "Auto"> {
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR;
  return accelerator === DEFAULT_MODEL_ACCELERATOR ? "Hosts" : "Pods";
}
