/** Writes the status of a service, and records Events for its changes. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { isOlderVersion } from "../../src/kube/resource-version.ts";
import { truncate } from "../../src/util/text.ts";
import { ApiCallFailed } from "../frame/apply/failure.ts";
import type { ControllerPorts } from "../frame/ports.ts";
import { flavorEvent } from "../frame/service/flavor-report.ts";
import { wakeEvent } from "../frame/service/idle-report.ts";
import { type ReportedEvent, reportOn } from "../frame/watches/events.ts";

const MAX_NOTE = 1000;

/** The last written status, and the resourceVersion that the service has since. */
export interface LastStatus {
  readonly version: string;
  readonly status: InferenceServiceStatus;
}

export interface StatusPorts extends Pick<ControllerPorts, "client" | "record" | "log"> {
  /** The last status by `namespace/name` of the service. */
  readonly lastStatus: Map<string, LastStatus>;
}

export async function writeStatus(
  ports: StatusPorts,
  service: InferenceService,
  status: InferenceServiceStatus,
): Promise<void> {
  const { name, namespace = "default" } = service.metadata;
  const key = keyOf(service.metadata);
  const object = { metadata: { name, namespace }, status } as InferenceService;
  const options = { manager: MANAGER_CONTROLLER, subresource: "status", current: service } as const;
  const result = await ports.client.apply(INFERENCE_SERVICES, object, options);
  if (!result.ok) {
    if (result.error.kind === "notFound" || result.error.kind === "conflict") return;
    throw new ApiCallFailed(`write the status of InferenceService ${name}`, result.error);
  }
  if (!result.value.sent) return;
  const { phase, reason } = status;
  const events = statusEvents(knownStatus(service, ports.lastStatus.get(key)), status);
  ports.lastStatus.set(key, { version: result.value.object.metadata.resourceVersion ?? "", status });
  for (const event of events) reportOn(ports.record, INFERENCE_SERVICES, service, event);
  if (events.length > 0) ports.log.info({ service: key, phase, reason }, "phase changed");
}

/** A pass may run before the watch shows what the previous passes wrote, and must not report the same change again. */
export function knownStatus(
  { metadata, status }: Pick<InferenceService, "metadata" | "status">,
  last: LastStatus | undefined,
): InferenceServiceStatus | undefined {
  const { resourceVersion = "" } = metadata;
  return last !== undefined && isOlderVersion(resourceVersion, last.version) ? last.status : status;
}

/**
 * One Event when the service enters a phase, or when the reason of a fault changes; one for each step of a rollout; and one if
 * fields are ignored or deserve a warning. The steps of a starting replica are Events of the replica only.
 */
export function statusEvents(
  before: InferenceServiceStatus | undefined,
  after: InferenceServiceStatus,
): ReportedEvent[] {
  const events = [
    wakeEvent(before, after),
    phaseEvent(before, after),
    rolloutEvent(before, after),
    flavorEvent(before, after),
  ];
  const conditions = [
    ["SpecHonored", "False"],
    ["Warnings", "True"],
    ["CPUFallback", "True"],
    ["ModelNamesAccepted", "False"],
    ["GatewayReady", "False"],
  ] as const;
  for (const [type, bad] of conditions) {
    const was = getCondition(before?.conditions, type);
    const is = getCondition(after.conditions, type);
    if (is?.status !== bad || (was?.status === bad && was.message === is.message)) continue;
    events.push({ type: "Warning", reason: is.reason, action: "Reconcile", note: is.message });
  }
  return events
    .filter((event) => event !== undefined)
    .map((event) => ({ ...event, note: truncate(event.note, MAX_NOTE) }));
}

function phaseEvent(
  before: InferenceServiceStatus | undefined,
  { phase, reason = "Unknown", message = "", conditions }: InferenceServiceStatus,
): ReportedEvent | undefined {
  if (phase === "Creating") return undefined;
  const isFault = phase === "WaitingForCapacity" || isConditionTrue(conditions, "Degraded");
  if (before?.phase === phase && (!isFault || before?.reason === reason)) return undefined;
  return { type: isFault ? "Warning" : "Normal", reason, action: "Reconcile", note: message };
}

/** The start of the first revision is not a rollout, because it replaces nothing. */
function rolloutEvent(
  before: InferenceServiceStatus | undefined,
  after: InferenceServiceStatus,
): ReportedEvent | undefined {
  const was = getCondition(before?.conditions, "Progressing");
  const is = getCondition(after.conditions, "Progressing");
  const { currentRevision } = before ?? {};
  if (is === undefined || currentRevision === undefined) return undefined;
  const wasRolling = was?.reason === "NewRevisionRollingOut" || was?.reason === "RolloutStopped";
  const isComplete = is.reason === "RolloutComplete" && wasRolling;
  const isStep = is.reason === "RolloutStopped" || is.reason === "NewRevisionRollingOut";
  const isNew = was?.reason !== is.reason && is.reason !== after.reason;
  if (!isComplete && !(isStep && isNew)) return undefined;
  const type = is.reason === "RolloutStopped" ? "Warning" : "Normal";
  return { type, reason: is.reason, action: "RollOut", note: is.message };
}
