/** Reports the flavor of a service: in its status, as condition FlavorChosen, and as an Event when it changes. Pure. */
import { setCondition } from "../../../src/api/conditions.ts";
import type { InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { truncate } from "../../../src/util/text.ts";
import type { ReportedEvent } from "../../watches/events.ts";
import type { LiveService } from "../path.ts";
import type { ChosenFlavor } from "./choose.ts";

const MAX_MESSAGE = 1_024;

/** `observed`: the service as the user wrote it. */
export function withFlavor(
  status: InferenceServiceStatus,
  { service }: LiveService,
  report: ChosenFlavor["report"],
  nowIso: string,
): InferenceServiceStatus {
  if (report === undefined) return status;
  const { name, reason = "", skipped, available } = report.status;
  const update = { ...report.condition, observedGeneration: service.metadata.generation };
  const before = service.status?.conditions?.filter(({ type }) => type === update.type);
  const own = setCondition(before, update, nowIso);
  return {
    ...status,
    flavor: {
      name,
      reason: truncate(reason, MAX_MESSAGE),
      skipped: skipped?.map((one) => ({ ...one, message: truncate(one.message ?? "", MAX_MESSAGE) })),
      available,
    },
    conditions: [...(status.conditions ?? []), ...own].sort((a, b) => (a.type < b.type ? -1 : 1)),
  };
}

/** Undefined if the flavor is the same as before. */
export function flavorEvent(
  before: InferenceServiceStatus | undefined,
  after: InferenceServiceStatus,
): ReportedEvent | undefined {
  if (after.flavor === undefined || before?.flavor?.name === after.flavor.name) return undefined;
  const chosen = after.conditions?.find(({ type }) => type === "FlavorChosen");
  if (chosen === undefined) return undefined;
  const type = chosen.status === "True" ? "Normal" : "Warning";
  return { type, reason: chosen.reason, action: "ChooseFlavor", note: chosen.message };
}
