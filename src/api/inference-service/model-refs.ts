/** spec.modelRefs: Models with roles. */
import { z } from "zod";
import { objectName } from "../fields/shared.ts";
import { LORA_ADAPTERS_MAX } from "../inference-replica.ts";

const MODEL_ROLES = ["main", "draft", "lora", "projector"] as const;
export type ModelRole = (typeof MODEL_ROLES)[number];

/** The entry for a role among the settings that a runtime honors. */
export function roleSetting(role: Exclude<ModelRole, "main">): string {
  return `modelRefs.${role}`;
}

/** A main model, a draft, a projector, and the adapters. */
const MODEL_REFS_MAX = 3 + LORA_ADAPTERS_MAX;

/** CEL: an entry of modelRefs has this role. */
export function isOfRole(role: ModelRole): string {
  return role === "main"
    ? "(!has(one.role) || one.role == 'main')"
    : `has(one.role) && one.role == '${role}'`;
}

const atMostOne = (role: ModelRole) => ({
  rule: `self.filter(one, ${isOfRole(role)}).size() <= 1`,
  message: `spec.modelRefs names more than one Model with role ${role}`,
});

export const modelRefsSchema = z
  .array(
    z.object({
      name: objectName("Name of the Model, in the same namespace."),
      role: z
        .enum(MODEL_ROLES)
        .describe(
          "Role of the Model. main: the model that answers. draft: a small model with the vocabulary of the main model, for speculative decoding. lora: a LoRA adapter of the main model, applied to requests that name it as their model. projector: the projector (mmproj) of the main model, for image or audio input. Defaults to main.",
        )
        .optional(),
    }),
  )
  .min(1)
  .max(MODEL_REFS_MAX)
  .meta({
    description:
      "Models to serve together, each with its role: exactly one with role main, at most one draft, at most one projector, and at most 16 LoRA adapters. Each can have any source. Set either modelRef or modelRefs.",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "x-kubernetes-validations": [
      {
        rule: `self.exists(one, ${isOfRole("main")})`,
        message: "spec.modelRefs names no Model with role main",
      },
      atMostOne("main"),
      atMostOne("draft"),
      atMostOne("projector"),
      {
        rule: `self.filter(one, ${isOfRole("lora")}).size() <= ${LORA_ADAPTERS_MAX}`,
        message: `spec.modelRefs names more than ${LORA_ADAPTERS_MAX} Models with role lora`,
      },
    ],
  });
