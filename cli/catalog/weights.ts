/** Resolves the name of weights for a runtime. */
import type { Catalog } from "../../fitness/catalog/record.ts";
import { resolveWeights, type WeightsRef } from "../../fitness/catalog/weights.ts";
import { ENGINES } from "../../src/engines/registry.ts";

interface RuntimeRequest {
  readonly runtime?: string | undefined;
  readonly quantization?: string | undefined;
}

/** Throws the errors of `resolveWeights`. */
export function weightsOf(
  catalog: Catalog,
  text: string,
  { runtime, quantization }: RuntimeRequest,
): WeightsRef {
  return resolveWeights(catalog, text, { formats: formatsOf(runtime), quantization });
}

/** Undefined without a runtime. */
function formatsOf(wanted: string | undefined): readonly string[] | undefined {
  if (wanted === undefined) return undefined;
  return ENGINES.find(({ runtime }) => runtime === wanted)?.formats ?? ["safetensors"];
}
