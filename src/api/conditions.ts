/** Conditions as metav1 has them: one entry per type, one writer per type. */
import { z } from "zod";
import { truncate } from "../util/text.ts";

const conditionSchema = z.object({
  type: z
    .string()
    .max(316)
    .regex(/^([a-zA-Z0-9][a-zA-Z0-9.-]*\/)?[A-Za-z0-9][A-Za-z0-9_.-]*$/)
    .describe("What the condition is about, in CamelCase. One entry per type."),
  status: z.enum(["True", "False", "Unknown"]).describe("Whether it holds: True, False or Unknown."),
  reason: z
    .string()
    .min(1)
    .max(1024)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .describe("Stable reason code of the last transition; docs/errors.md says what to do for each."),
  message: z.string().max(32768).describe("Human-readable message: what is the case, then what to do."),
  observedGeneration: z
    .int()
    .min(0)
    .optional()
    .describe(
      "The metadata.generation that the condition is based on; if older than the object's, the condition is out of date.",
    ),
  lastTransitionTime: z.iso.datetime({ offset: true }).describe("When status last changed."),
});

export type Condition = z.output<typeof conditionSchema>;

const described = {
  description: "What is known about this object, one entry per type, each with a reason code and a sentence.",
  "x-kubernetes-list-type": "map" as const,
  "x-kubernetes-list-map-keys": ["type"],
};

export const conditionsSchema = z.array(conditionSchema).max(64).meta(described);

/** Kinds whose status a host writes: what it may write is small. */
export const reportedConditions = (most: number) =>
  z
    .array(
      conditionSchema.extend({
        type: conditionSchema.shape.type.max(128),
        reason: conditionSchema.shape.reason.max(128),
        message: conditionSchema.shape.message.max(1024),
      }),
    )
    .max(most)
    .meta(described);

/** What pods, schedulers and sources say is part of some messages, and objects stay small. */
const MESSAGE_MAX = 4_096;

export interface ConditionUpdate {
  readonly type: string;
  readonly status: Condition["status"];
  readonly reason: string;
  readonly message: string;
  readonly observedGeneration?: number | undefined;
}

/** The list with one condition set. `lastTransitionTime` moves only with `status`; order is by type, so equal states compare equal. */
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
  return [...others, next].sort(byType);
}

/** The condition of a type, if the list has one. */
export function getCondition(
  conditions: readonly Condition[] | undefined,
  type: string,
): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

/** True only when the condition is there and says True: absent and Unknown are not True. */
export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return getCondition(conditions, type)?.status === "True";
}

/** The list without a type; the same order rule as {@link setCondition}. */
export function removeCondition(conditions: readonly Condition[] | undefined, type: string): Condition[] {
  return (conditions ?? []).filter((condition) => condition.type !== type).sort(byType);
}

function byType(a: Condition, b: Condition): number {
  return a.type < b.type ? -1 : a.type > b.type ? 1 : 0;
}
