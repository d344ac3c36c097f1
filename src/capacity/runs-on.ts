/** Determines whether a service runs as engines on hosts or as pods. Pure. */
import { DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import type { InferenceService } from "../api/inference-service/index.ts";
import type { RunsOn } from "../api/inference-service/rollout.ts";
import type { Model } from "../api/model.ts";
import { flavorsOf, platformOfFlavor } from "./flavors/narrow.ts";

/**
 * spec.placement.on, else where the flavors of the Model are, else according to the accelerator of the Model; undefined if none of
 * them is known.
 */
export function runsOn({ spec }: InferenceService, model: Model | undefined): RunsOn | undefined {
  const { on } = spec.placement;
  const [first, ...others] = new Set(flavorsOf(spec, model)?.flavors.map(platformOfFlavor));
  if (first !== undefined && (on === undefined || on === "Auto")) return others.length > 0 ? "Auto" : first;
  if (on !== undefined) return on;
  return model && platformOf(model);
}

/** Platform of a Model if its services do not choose one: the default accelerator exists on hosts only. */
export function platformOf({ spec }: Pick<Model, "spec">): Exclude<RunsOn, "Auto"> {
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR;
  return accelerator === DEFAULT_MODEL_ACCELERATOR ? "Hosts" : "Pods";
}
