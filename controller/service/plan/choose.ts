/** Format and runtime of a service on a Metal host. */
import type { Runtime } from "../../../src/api/engine-settings.ts";
import type { ModelFormat } from "../../../src/api/fields/shared.ts";
import type { Model } from "../../../src/api/model.ts";
import { chooseRuntime, isRuntimeFor } from "../../../src/engines/registry.ts";
import { MetalbridgeError } from "../../../src/errors.ts";
import { defaultFormat, parseSource } from "../../../src/source/source.ts";

/** The Model's word, else what its source was found to be, else what the source's name says; gguf where nothing does. */
export function formatOf({ spec, status }: Model): ModelFormat {
  return spec.format ?? status?.format ?? defaultFormat(parseSource(spec.source)) ?? "gguf";
}

/** The service's word where it can serve the format, else the runtime that is first for it. */
export function runtimeFor(asked: Runtime | undefined, format: ModelFormat): Runtime {
  if (asked !== undefined && !isRuntimeFor(asked, format, "metal")) {
    throw new MetalbridgeError(
      "RuntimeMismatch",
      `runtime ${asked} does not serve format ${format} on a Metal host`,
    );
  }
  const runtime = asked ?? chooseRuntime(format, "metal");
  if (runtime === undefined) {
    throw new MetalbridgeError("RuntimeMismatch", `no runtime serves format ${format} on a Metal host`);
  }
  return runtime;
}
