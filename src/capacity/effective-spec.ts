/** The spec of a service as its engine gets it, for readers that do not resolve the service. Pure. */
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import { argumentsAsSettings } from "./arguments.ts";

/** With the service's own arguments as settings, without those of its BackendRuntime. As it is if one of them is refused. */
export function effectiveSpec(
  spec: InferenceServiceSpec,
  runtime: Runtime | undefined,
): InferenceServiceSpec {
  if (runtime === undefined || spec.extraArgs === undefined) return spec;
  try {
    return argumentsAsSettings(spec, runtime).spec;
  } catch (error) {
    if (error instanceof MetalbridgeError) return spec;
    throw error;
  }
}
