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

const isDraft = `self.type in [${DRAFT_TYPES.map((type) => `'${type}'`).join(", ")}]`;

export const speculativeDecodingSchema = z
  .object({
    type: speculativeType,
    draftModelRef: objectName(
      "Name of the draft Model, in the same namespace: a small model with the vocabulary of the main model. With a different vocabulary, llama-server serves without drafts and logs the reason.",
    ).optional(),
    draftModel: nonEmpty(253)
      .describe(
        "Draft model as a file in the source of the main model. Not implemented in this version; use draftModelRef.",
      )
      .optional(),
    ...speculativeTuning,
  })
  .meta({
    "x-kubernetes-validations": [
      {
        rule: `!(${isDraft}) || has(self.draftModelRef) || has(self.draftModel)`,
        message: "speculativeDecoding.type draft* needs one of draftModelRef and draftModel",
      },
      {
        rule: `(${isDraft}) || (!has(self.draftModelRef) && !has(self.draftModel))`,
        message: "speculativeDecoding.draftModelRef and draftModel go only with a type draft*",
      },
      {
        rule: "!(has(self.draftModelRef) && has(self.draftModel))",
        message: "set only one of speculativeDecoding.draftModelRef and speculativeDecoding.draftModel",
      },
    ],
  });
