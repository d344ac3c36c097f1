/** Determines whether a service runs as engines on hosts or as pods. Pure. */
import { type Accelerator, DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { RunsOn } from "../api/inference-service/rollout.ts";
import type { Model } from "../api/model.ts";
import { flavorsOf, platformOfFlavor } from "./flavors/narrow.ts";

/** The fields that decide between hosts and pods. They may lack the defaults of the API server. */
interface Placed {
  readonly spec: Pick<InferenceServiceSpec, "flavors"> & {
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
}

export function usableMachines(service: Placed, model: Model): UsableMachines {
  const on = runsOn(service, model) ?? platformOf(model);
  const { accelerator = DEFAULT_MODEL_ACCELERATOR } = model.spec.hardware ?? {};
  const hasFlavors = flavorsOf(service.spec, model) !== undefined;
  if (on === "Hosts" || hasFlavors || accelerator === "vulkan") return { on };
  // Pods without a GPU use the processor.
  return { on, accelerator: accelerator === "metal" ? "cpu" : accelerator };
}

/** Platform of a Model if its services do not choose one: the default accelerator exists on hosts only. */
export function platformOf({ spec }: Pick<Model, "spec">): Exclude<RunsOn, "Auto"> {
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR;
  return accelerator === DEFAULT_MODEL_ACCELERATOR ? "Hosts" : "Pods";
}
