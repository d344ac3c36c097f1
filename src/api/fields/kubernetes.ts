/** Fields that hold plain Kubernetes types. They are passed through to pods, so the API server checks them there. */
import { z } from "zod";

/** An object of a Kubernetes type, kept as it is. */
export function passThrough(description: string) {
  return z.looseObject({}).describe(description);
}

/** A list of objects of a Kubernetes type, kept as they are. */
export function passThroughList(description: string) {
  return z.array(z.looseObject({})).max(256).meta({ description, "x-kubernetes-list-type": "atomic" });
}

const MAP_MAX = 64;

/** Kubernetes allows no longer values; most labels are far shorter than the longest ones. */
export const LABEL_LIMITS = { valueLength: 63, totalLength: 8_192 } as const;
export const ANNOTATION_LIMITS = { valueLength: 32_768, totalLength: 32_768 } as const;

/** Labels or annotations. */
export function stringMap(
  field: string,
  { valueLength, totalLength }: typeof LABEL_LIMITS | typeof ANNOTATION_LIMITS,
  description: string,
) {
  return z.record(z.string(), z.string().max(valueLength)).meta({
    description,
    maxProperties: MAP_MAX,
    "x-kubernetes-validations": [
      {
        rule: `self.map(key, size(key) + size(self[key])).sum() <= ${totalLength}`,
        message: `${field}: at most ${totalLength} characters together`,
      },
    ],
  });
}

/** As Kubernetes has them: other values match nothing. */
const labelValue = z
  .string()
  .max(63)
  .regex(/^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/);

export function tolerationsSchema(description: string) {
  return z
    .array(
      z.object({
        key: z.string().max(316).describe("Key of the taint; empty with operator Exists for all.").optional(),
        operator: z
          .enum(["Exists", "Equal", "Lt", "Gt"])
          .describe("Operator that compares key and value. Absent: Equal.")
          .optional(),
        value: z.string().max(63).describe("Value of the taint.").optional(),
        effect: z
          .enum(["NoSchedule", "PreferNoSchedule", "NoExecute"])
          .describe("Effect to tolerate. Absent: all of them.")
          .optional(),
        tolerationSeconds: z
          .int()
          .describe("Seconds to stay on a node with a NoExecute taint. Absent: indefinitely.")
          .optional(),
      }),
    )
    .max(64)
    .meta({ description, "x-kubernetes-list-type": "atomic" });
}

/** metav1.LabelSelector. */
export const labelSelectorSchema = z.object({
  matchLabels: stringMap("matchLabels", LABEL_LIMITS, "Labels that must all have these values.").optional(),
  matchExpressions: z
    .array(
      z
        .object({
          key: z.string().min(1).max(316).describe("Label key."),
          operator: z
            .enum(["In", "NotIn", "Exists", "DoesNotExist"])
            .describe("Operator that compares its value."),
          values: z.array(labelValue).max(64).describe("Values for In and NotIn; none otherwise.").optional(),
        })
        .meta({
          "x-kubernetes-validations": [
            {
              rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
              message: "matchExpressions: values is needed with In and NotIn, and only there",
            },
          ],
        }),
    )
    .max(32)
    .describe("Label expressions; all must match.")
    .optional(),
});

export type LabelSelector = z.output<typeof labelSelectorSchema>;

/** Does a selector match these labels? An absent or empty one matches everything. */
export function selectorMatches(
  selector: LabelSelector | undefined,
  labels: Readonly<Record<string, string>> | undefined,
): boolean {
  const has = labels ?? {};
  const pairs = Object.entries(selector?.matchLabels ?? {});
  if (!pairs.every(([key, value]) => has[key] === value)) return false;
  return (selector?.matchExpressions ?? []).every((expression) => {
    const value = has[expression.key];
    switch (expression.operator) {
      case "In":
        return value !== undefined && (expression.values ?? []).includes(value);
      case "NotIn":
        return value === undefined || !(expression.values ?? []).includes(value);
      case "Exists":
        return value !== undefined;
      case "DoesNotExist":
        return value === undefined;
      default:
        return expression.operator satisfies never;
    }
  });
}
