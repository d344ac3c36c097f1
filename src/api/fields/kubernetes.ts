/** Fields of plain Kubernetes types. They are copied to pods, where the API server validates them. */
import { z } from "zod";
import { nonEmpty } from "./shared.ts";

/** An object of a Kubernetes type, which is not validated. */
export function passThrough(description: string) {
  return z.looseObject({}).describe(description);
}

/** A list of objects of a Kubernetes type, which are not validated. */
export function passThroughList(description: string) {
  return z.array(z.looseObject({})).max(256).meta({ description, "x-kubernetes-list-type": "atomic" });
}

const MAP_MAX = 64;

/** The maximum that Kubernetes allows for a value, and a total for all of them. */
export const LABEL_LIMITS = { valueLength: 63, totalLength: 8_192 } as const;
export const ANNOTATION_LIMITS = { valueLength: 32_768, totalLength: 32_768 } as const;

interface MapLimits {
  readonly valueLength: number;
  readonly totalLength: number;
  readonly entries?: number;
}

/** Labels or annotations. */
export function stringMap(
  field: string,
  { valueLength, totalLength, entries = MAP_MAX }: MapLimits,
  description: string,
) {
  return z.record(z.string(), z.string().max(valueLength)).meta({
    description,
    maxProperties: entries,
    "x-kubernetes-validations": [
      {
        rule: `self.map(key, size(key) + size(self[key])).sum() <= ${totalLength}`,
        message: `${field}: at most ${totalLength} characters together`,
      },
    ],
  });
}

/** A label value as Kubernetes defines it. */
const labelValue = z
  .string()
  .max(63)
  .regex(/^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/);

export function tolerationsSchema(description: string) {
  return z
    .array(
      z.object({
        key: z
          .string()
          .max(316)
          .describe("Key of the taint. If empty, the operator must be Exists, which matches all taints.")
          .optional(),
        operator: z
          .enum(["Exists", "Equal", "Lt", "Gt"])
          .describe("Operator that relates the key to the value. Defaults to Equal.")
          .optional(),
        value: z.string().max(63).describe("Value of the taint.").optional(),
        effect: z
          .enum(["NoSchedule", "PreferNoSchedule", "NoExecute"])
          .describe("Effect of the taint. If absent, all effects are tolerated.")
          .optional(),
        tolerationSeconds: z
          .int()
          .describe("Time in seconds for which a NoExecute taint is tolerated. Defaults to no limit.")
          .optional(),
      }),
    )
    .max(64)
    .meta({ description, "x-kubernetes-list-type": "atomic" });
}

interface SelectorLimits extends MapLimits {
  readonly expressions: number;
  /** Maximum number of values of an expression. */
  readonly values: number;
}

/** metav1.LabelSelector with limits. */
export function labelSelector({ expressions, values, ...labels }: SelectorLimits) {
  const expression = z
    .object({
      key: nonEmpty(316).describe("Label key."),
      operator: z
        .enum(["In", "NotIn", "Exists", "DoesNotExist"])
        .describe("Operator that relates the key to the values."),
      values: z.array(labelValue).max(values).describe("Values for the operators In and NotIn.").optional(),
    })
    .meta({
      "x-kubernetes-validations": [
        {
          rule: "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
          message: "matchExpressions: values is needed with In and NotIn, and only there",
        },
      ],
    });
  return z.object({
    matchLabels: stringMap("matchLabels", labels, "Labels and their required values.").optional(),
    matchExpressions: z
      .array(expression)
      .max(expressions)
      .describe("Label expressions, all of which must match.")
      .optional(),
  });
}

/** metav1.LabelSelector. */
export const labelSelectorSchema = labelSelector({ ...LABEL_LIMITS, expressions: 32, values: 64 });

export type LabelSelector = z.output<typeof labelSelectorSchema>;

/** Determines whether a selector matches labels. An absent or empty selector matches everything. */
export function selectorMatches(
  selector: LabelSelector | undefined,
  labels: Readonly<Record<string, string>> | undefined,
): boolean {
  const required = Object.entries(selector?.matchLabels ?? {});
  if (!required.every(([key, value]) => labels?.[key] === value)) return false;
  return (selector?.matchExpressions ?? []).every((expression) => {
    const value = labels?.[expression.key];
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
