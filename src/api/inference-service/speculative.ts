/** Speculative decoding, with the rules on which kinds take a draft model. */
import { z } from "zod";
import { speculativeTuning, speculativeType } from "../engine-settings.ts";
import { objectName } from "../fields/shared.ts";

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
      "Draft Model, in the same namespace: a small model with the vocabulary of the main model. With another vocabulary llama-server serves without drafts and logs why.",
    ).optional(),
    draftModel: z
      .string()
      .min(1)
      .max(253)
      .describe(
        "Draft model: a file in the main model's source. Not in this version: name a Model in draftModelRef.",
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
