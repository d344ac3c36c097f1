/** The Models of a service, found by the names in its spec. Pure. */
import type { ModelRole } from "../api/inference-service/model-refs.ts";
import { type ModelName, modelNamesOf, type Naming } from "../api/inference-service/roles.ts";
import type { Model } from "../api/model.ts";

/** The Models that a service names; undefined for one that does not exist. */
export interface NamedModels {
  readonly model?: Model | undefined;
  readonly draftModel?: Model | undefined;
  readonly projectorModel?: Model | undefined;
  /** In the order of `modelNamesOf(spec).adapters`. */
  readonly loraModels?: readonly (Model | undefined)[] | undefined;
}

/** A Model with the role and the field in which the service names it. */
export interface NamedModel extends ModelName {
  readonly role: ModelRole;
  readonly model: Model | undefined;
}

export function findNamedModels(spec: Naming, find: (name: string) => Model | undefined): NamedModels {
  const { main, draft, projector, adapters } = modelNamesOf(spec);
  return {
    model: find(main.name),
    draftModel: draft && find(draft.name),
    projectorModel: projector && find(projector.name),
    loraModels: adapters.map(({ name }) => find(name)),
  };
}

/** All Models of a service, the main model first, then draft, projector and adapters. */
export function listNamedModels(spec: Naming, found: NamedModels): readonly [NamedModel, ...NamedModel[]] {
  const { main, draft, projector, adapters } = modelNamesOf(spec);
  const { model, draftModel, projectorModel, loraModels = [] } = found;
  return [
    { ...main, role: "main", model },
    ...(draft === undefined ? [] : [{ ...draft, role: "draft" as const, model: draftModel }]),
    ...(projector === undefined ? [] : [{ ...projector, role: "projector" as const, model: projectorModel }]),
    ...adapters.map((adapter, index) => ({ ...adapter, role: "lora" as const, model: loraModels[index] })),
  ];
}
