/** Format and runtime of a service. */
import type { Runtime } from "../../../src/api/engine-settings.ts";
import type { ModelFormat } from "../../../src/api/fields/shared.ts";
import type { Model } from "../../../src/api/model.ts";
import { MetalbridgeError } from "../../../src/errors.ts";

const BY_FORMAT: Readonly<Partial<Record<ModelFormat, Runtime>>> = {
  gguf: "llamacpp",
  mlx: "omlx",
  ollama: "ollama",
};

/** The Model's word, else what its source was found to be, else gguf. */
export function chooseFormat({ spec, status }: Model): ModelFormat {
  return spec.format ?? status?.format ?? (spec.source.startsWith("ollama://") ? "ollama" : "gguf");
}

/** The service's word, else the runtime of the format. */
export function chooseRuntime(asked: Runtime | undefined, format: ModelFormat): Runtime {
  const runtime = asked ?? BY_FORMAT[format];
  if (runtime === undefined)
    throw new MetalbridgeError("NotYetSupported", `format ${format} has no runtime on Metal hosts yet`);
  return runtime;
}
