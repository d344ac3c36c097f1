/** The Models that a service names, by role. Only this file reads both ways to name them: nothing else knows two forms. Pure. */
import type { ModelRole } from "./model-refs.ts";
import type { InferenceServiceSpec } from "./spec.ts";

/** A Model that a service names, and the field that names it. */
export interface ModelName {
  readonly name: string;
  readonly field: string;
}

export interface AdapterName extends ModelName {
  /** Strength with which the adapter applies to every request; absent if it applies only to requests that name it. */
  readonly scale?: number;
}

/** The Models of a service. The order of the adapters is that of their identifiers in the engine. */
export interface ModelNames {
  readonly main: ModelName;
  readonly draft?: ModelName | undefined;
  readonly projector?: ModelName | undefined;
  readonly adapters: readonly AdapterName[];
}

/** The fields of a spec that name Models. */
export type Naming = Pick<
  InferenceServiceSpec,
  "modelRef" | "modelRefs" | "speculativeDecoding" | "loraAdapters"
>;

/** The Models that a spec names, in either form. The API server guarantees that there is a main model. */
export function modelNamesOf(spec: Naming): ModelNames {
  const { modelRefs = [], speculativeDecoding, loraAdapters = [] } = spec;
  const ofRole = (role: ModelRole): ModelName[] =>
    modelRefs.flatMap((ref, index) =>
      (ref.role ?? "main") === role ? [{ name: ref.name, field: `spec.modelRefs[${index}].name` }] : [],
    );
  const ofDecoding = (field: "draftModelRef" | "draftModel"): ModelName[] => {
    const name = speculativeDecoding?.[field];
    return name === undefined ? [] : [{ name, field: `spec.speculativeDecoding.${field}` }];
  };
  const [draft] = [...ofDecoding("draftModelRef"), ...ofRole("draft"), ...ofDecoding("draftModel")];
  const always = loraAdapters.map(({ modelRef, scale = 1 }, index) => ({
    name: modelRef,
    field: `spec.loraAdapters[${index}].modelRef`,
    scale,
  }));
  // Sorted, because the order of a map-like list has no meaning and must not replace an engine.
  const named = ofRole("lora").sort((one, other) => (one.name < other.name ? -1 : 1));
  const [main = { name: spec.modelRef ?? "", field: "spec.modelRef" }] = ofRole("main");
  return { main, draft, projector: ofRole("projector")[0], adapters: [...always, ...named] };
}

/** Name of the Model that a service serves. */
export function mainModelOf(spec: Naming): string {
  return modelNamesOf(spec).main.name;
}

/** Names of all Models of a service, the main model first. */
export function allModelsOf(spec: Naming): readonly string[] {
  const { main, draft, projector, adapters } = modelNamesOf(spec);
  const further = [draft, projector, ...adapters].flatMap((one) => one?.name ?? []);
  return [...new Set([main.name, ...further])];
}

type SpeculativeDecoding = NonNullable<InferenceServiceSpec["speculativeDecoding"]>;

/** Settings of speculative decoding, without the name of the draft model. A draft among the Models needs no further settings. */
export function speculativeDecodingOf(
  spec: Naming,
): Omit<SpeculativeDecoding, "draftModelRef" | "draftModel"> | undefined {
  const { draft } = modelNamesOf(spec);
  if (spec.speculativeDecoding === undefined) return draft && { type: "draft" };
  const { draftModelRef: _, draftModel: __, ...settings } = spec.speculativeDecoding;
  return settings;
}
