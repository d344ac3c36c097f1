/** The part of a service's status that describes its main Model, for hosts and pods. Pure. */
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../../src/api/inference-service/roles.ts";
import type { Model } from "../../../src/api/model.ts";
import { quantizationOfWeights } from "../../../src/capacity/resolve.ts";
import { defined } from "../../../src/util/defined.ts";

type ServedModel = NonNullable<InferenceServiceStatus["model"]>;

/** Includes what gateways list of the Model, because they do not read Models. */
export function servedModelOf({ spec }: InferenceService, model: Model | undefined): ServedModel {
  return defined<ServedModel>({
    name: mainModelOf(spec),
    source: model?.spec.source,
    quantization: model && quantizationOfWeights(model),
    sizeBytes: model?.status?.sizeBytes,
    familyName: model?.spec.familyName,
    ownedBy: model?.spec.ownedBy,
    createdAt: model?.spec.createdAt,
  });
}
