/** Conditions as in metav1: one entry and one writer per type. */
import { z } from "zod";
import { compareText, truncate } from "../util/text.ts";

const conditionSchema = z.object({
  type: z
    .string()
    .max(316)
    .regex(/^([a-zA-Z0-9][a-zA-Z0-9.-]*\/)?[A-Za-z0-9][A-Za-z0-9_.-]*$/)
    .describe("Type of the condition, in CamelCase. One entry per type."),
  status: z.enum(["True", "False", "Unknown"]).describe("Status of the condition: True, False or Unknown."),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .describe("Reason code of the last transition. docs/errors.md describes each code and its remedy."),
  message: z
    .string()
    .max(32768)
    .describe("Human-readable description of the current state and of what to do about it."),
  observedGeneration: z
    .int()
    .min(0)
    .optional()
    .describe(
      "metadata.generation that the condition is based on. The condition is out of date if the object has a newer generation.",
    ),
  lastTransitionTime: z.iso.datetime({ offset: true }).describe("Time at which the status last changed."),
});

export type Condition = z.output<typeof conditionSchema>;

const described = {
  description: "Current conditions of the object, one entry per type.",
  "x-kubernetes-list-type": "map" as const,
  "x-kubernetes-list-map-keys": ["type"],
};

export const conditionsSchema = z.array(conditionSchema).max(64).meta(described);

/** Conditions in a status that a host writes, with lower limits. */
export const reportedConditions = (maxItems: number) =>
  z
    .array(
      conditionSchema.extend({
        type: conditionSchema.shape.type.max(128),
        reason: conditionSchema.shape.reason.max(128),
        message: conditionSchema.shape.message.max(1024),
      }),
    )
    .max(maxItems)
    .meta(described);

/** Limited because some messages quote pods, schedulers and sources, and objects must stay small. */
const MESSAGE_MAX = 4_096;

export interface ConditionUpdate {
  readonly type: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number | undefined;
}

interface Conditioned {
  readonly metadata: { readonly generation?: number | undefined };
  readonly status?: { readonly conditions?: readonly Condition[] | undefined } | undefined;
}

/** Sets one condition. `lastTransitionTime` changes only with `status`. The list is sorted by type, so equal states compare equal. */
export function setCondition(
  conditions: readonly Condition[] | undefined,
  update: ConditionUpdate,
  nowIso: string,
): Condition[] {
  const before = getCondition(conditions, update.type);
  const next: Condition = {
    type: update.type,
    status: update.status,
    reason: update.reason,
    message: truncate(update.message, MESSAGE_MAX),
    lastTransitionTime: before?.status === update.status ? before.lastTransitionTime : nowIso,
  };
  if (update.observedGeneration !== undefined) next.observedGeneration = update.observedGeneration;
  const others = (conditions ?? []).filter((condition) => condition.type !== update.type);
  return [...others, next].sort((a, b) => compareText(a.type, b.type));
}

/** Adds or replaces conditions of an object. Their times follow those that its status has. Sorted by type, if there were any. */
export function withConditions(
  { metadata, status }: Conditioned,
  conditions: readonly Condition[] | undefined,
  updates: readonly ConditionUpdate[],
  nowIso: string,
): Condition[] {
  const observedGeneration = metadata.generation;
  const added = updates.flatMap((update) => {
    const last = getCondition(status?.conditions, update.type);
    return setCondition(last && [last], { ...update, observedGeneration }, nowIso);
  });
  if (conditions === undefined) return added;
  const others = conditions.filter(({ type }) => !added.some((one) => one.type === type));
  return [...others, ...added].sort((a, b) => compareText(a.type, b.type));
}

/** The condition of a type, if it exists. */
export function getCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** False if the condition is absent or Unknown. */
export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions, type)?.status === "True";
}

/** Removes the condition of a type and sorts the list as {@link setCondition} does. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  return (conditions ?? [])
    .filter((condition) => condition.type !== type)
    .sort((a, b) => compareText(a.type, b.type));
}
