/** The spec of a service as its engine gets it, for readers that do not resolve the service. Pure. */
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import type { InferenceService, InferenceServiceSpec } from "../api/inference-service/index.ts";
import { argumentsAsSettings, settingAt, withSetting } from "./arguments.ts";

/** With the settings in arguments: those of the service, and those that its status has of its BackendRuntime and flavor. */
export function effectiveSpec(
  { spec, status }: Pick<InferenceService, "spec" | "status">,
  runtime: Runtime | undefined,
): InferenceServiceSpec {
  const inherited = Object.entries(status?.inheritedSettings ?? {});
  return inherited.reduce(
    (merged, [setting, value]) =>
      settingAt(merged, setting) === undefined ? withSetting(merged, setting, value) : merged,
    withOwnArguments(spec, runtime),
  );
}

/** As it is if an argument is refused. */
function withOwnArguments(spec: InferenceServiceSpec, runtime: Runtime | undefined): InferenceServiceSpec {
  try {
    return argumentsAsSettings(spec, runtime).spec;
  } catch (error) {
    if (error instanceof MetalbridgeError) return spec;
    throw error;
  }
}
