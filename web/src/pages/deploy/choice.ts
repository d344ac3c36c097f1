/** What the reader has chosen to deploy, and the objects that it means. Pure. */

import { quantizationIn, quantizationOf } from "../../../../fitness/catalog/quantizations.ts";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import { resolveWeights, type WeightsRef } from "../../../../fitness/catalog/weights.ts";
import type { MetalbridgeError } from "../../../../src/api/errors.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { Model } from "../../../../src/api/model.ts";
import { placeReason, type UsableMachines, usableMachines } from "../../../../src/capacity/runs-on.ts";
import { deployedModel, deployedService, deploymentName } from "../../../../src/models/deployment.ts";
import { parseSource } from "../../../../src/models/source/parse.ts";

export interface Choice {
  readonly from: "catalog" | "source";
  /** Name in the catalog; empty until one is chosen. */
  readonly model: string;
  readonly source: string;
  /** Empty: derived from the weights. */
  readonly name: string;
  readonly namespace: string;
  /** Empty: the usual one. */
  readonly quantization: string;
  /** Empty: the default of the API server. */
  readonly contextSize: string;
  readonly replicas: string;
  /** Quantities, and a percentage. Empty: not set. */
  readonly cpuLimit: string;
  readonly memoryLimit: string;
  readonly objective: string;
}

/** A field of the form; `yaml` for a field that it does not have. */
export type ChoiceField = Exclude<keyof Choice, "from"> | "yaml";

export interface Deployment {
  readonly model: Model;
  readonly service: InferenceService;
}

/** The objects as the reader has edited them. */
export interface YamlState {
  readonly text: string;
  /** Undefined while the text is invalid. */
  readonly deployment: Deployment | undefined;
}

export type Meaning =
  | { readonly at: "incomplete"; readonly name: string }
  | { readonly at: "invalid"; readonly field: ChoiceField; readonly message: string; readonly name: string }
  | {
      readonly at: "deployment";
      readonly name: string;
      readonly deployment: Deployment;
      /** Name for the density API. */
      readonly weights: string;
    };

export function meaningOf(choice: Choice, records: readonly CatalogRecord[]): Meaning {
  const text = (choice.from === "catalog" ? choice.model : choice.source).trim();
  if (text === "") return { at: "incomplete", name: "" };
  const quantization = choice.quantization.trim() === "" ? undefined : choice.quantization.trim();
  let found: WeightsRef;
  let name: string;
  try {
    found = resolveWeights({ records }, text, { quantization });
    const source = parseSource(found.source);
    name = deploymentName(found.model === undefined ? source : parseSource(`hf://${found.model}`));
  } catch (error) {
    const { message, remedy } = error as MetalbridgeError;
    const field = choice.from === "catalog" ? "model" : "source";
    return { at: "invalid", field, message: [message, remedy?.summary].filter(Boolean).join("; "), name: "" };
  }
  const number = numberFault(choice);
  if (number !== undefined) return { ...number, name };
  const target = { namespace: choice.namespace, name: choice.name === "" ? name : choice.name };
  const service = deployedService(target, target.name, {
    mode: found.mode,
    replicas: numberOf(choice.replicas),
    contextSize: numberOf(choice.contextSize),
  });
  const deployment = {
    model: deployedModel(target, found),
    service: { ...service, spec: { ...service.spec, ...furtherFields(choice) } },
  };
  return { at: "deployment", name, deployment, weights: found.model ?? found.source };
}

/** The API server has the rules for their values, and names the field that it refuses. */
function furtherFields({ cpuLimit, memoryLimit, objective }: Choice): Partial<InferenceService["spec"]> {
  const limits = Object.entries({ cpu: cpuLimit, memory: memoryLimit }).filter(([, text]) => text !== "");
  const fields: Record<string, unknown> = {};
  if (limits.length > 0) fields.resources = { limits: Object.fromEntries(limits) };
  if (objective !== "") fields.slo = { objective };
  return fields;
}

/** Edited YAML replaces the fields, also while it is invalid: nothing is deployed then. */
export function deploymentOf(
  meaning: Meaning,
  edited: { readonly deployment: Deployment | undefined } | undefined,
): Deployment | undefined {
  if (edited !== undefined) return edited.deployment;
  return meaning.at === "deployment" ? meaning.deployment : undefined;
}

/** The request to `density/simulate` about the objects that will be created. Undefined while there are none. */
export function questionOf(
  { from }: Pick<Choice, "from">,
  meaning: Meaning,
  deployment: Deployment | undefined,
) {
  if (deployment === undefined) return undefined;
  const { model, service } = deployment;
  const { source, quantization } = model.spec;
  // Sources have more quantizations than the preview knows.
  const known = quantizationOf(quantization ?? quantizationIn(source) ?? "");
  const isOfFields = meaning.at === "deployment" && meaning.deployment.model.spec.source === source;
  return {
    model: isOfFields ? meaning.weights : source,
    quantization: known?.name ?? (from === "catalog" ? quantization : undefined),
    context: service.spec.contextSize,
    slots: service.spec.parallelSlots,
    ...machinesOf({ model, service }),
  };
}

/** Where the service will run, and what decides that. */
export function placeOf({ model, service }: Deployment): string | undefined {
  try {
    return placeReason(service, model);
  } catch {
    return undefined;
  }
}

/** Edited YAML may have values that the API server will refuse, at their fields. */
function machinesOf({ model, service }: Deployment): UsableMachines {
  try {
    return usableMachines(service, model);
  } catch {
    return { on: "Auto" };
  }
}

function numberFault({ contextSize, replicas }: Choice) {
  for (const [field, text] of [
    ["contextSize", contextSize],
    ["replicas", replicas],
  ] as const)
    if (text !== "" && !/^[1-9]\d{0,8}$/.test(text))
      return { at: "invalid", field, message: "Write a whole number above 0." } as const;
  return undefined;
}

function numberOf(text: string): number | undefined {
  return text === "" ? undefined : Number(text);
}

const FIELDS: readonly (readonly [RegExp, ChoiceField])[] = [
  [/^metadata\.name(space)?$/, "name"],
  [/^spec\.source\b/, "source"],
  [/^spec\.quantization$/, "quantization"],
  [/^spec\.contextSize$/, "contextSize"],
  [/^spec\.replicas$/, "replicas"],
  [/^spec\.resources\.limits\.cpu$/, "cpuLimit"],
  [/^spec\.resources\.limits(\.memory)?$/, "memoryLimit"],
  [/^spec\.slo\b/, "objective"],
];

/** The field of the form that sets a field of the objects. */
export function formFieldOf(field: string): ChoiceField {
  const found = FIELDS.find(([pattern]) => pattern.test(field))?.[1] ?? "yaml";
  return field === "metadata.namespace" ? "namespace" : found;
}
