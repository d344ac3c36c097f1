/** Speculative decoding, with validation rules for the types that take a draft model. */
import { z } from "zod";
import { speculativeTuning, speculativeType } from "../engine-settings.ts";
import { nonEmpty, objectName } from "../fields/shared.ts";

/** Types that need a draft model. */
const DRAFT_TYPES = [
  "draft",
  "draft-simple",
  "draft-eagle3",
  "draft-mtp",
  "draft-dflash",
  "draft-dspark",
] as const;

/** CEL: the service has a type that needs a draft model. */
export const HAS_DRAFT_TYPE = `has(self.speculativeDecoding) && self.speculativeDecoding.type in [${DRAFT_TYPES.map((type) => `'${type}'`).join(", ")}]`;

export const speculativeDecodingSchema = z.object({
  type: speculativeType,
  draftModelRef: objectName(
    "Name of the draft Model, in the same namespace: a small model with the vocabulary of the main model. The same as role draft in spec.modelRefs. With a different vocabulary, llama-server serves without drafts and logs the reason.",
  ).optional(),
  draftModel: nonEmpty(253)
    .describe(
      "Deprecated, for manifests of LLMKube: name of the draft Model, the same as role draft in spec.modelRefs. If it is a file of the main Model, create a Model of that name with the same source and the file in its files.",
    )
    .optional(),
  ...speculativeTuning,
});
