/** What users hear of a pass: the status of the service, and Events of what changed. */
import { getCondition } from "../../src/api/conditions.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Placed } from "../../src/placement/types.ts";
import { type ReportedEvent, reportOn } from "../cache/events.ts";
import type { ControllerPorts } from "../cache/ports.ts";
import { isRejection } from "./apply/rejection.ts";
import type { Outcome } from "./apply/run.ts";
import { ApiCallFailed } from "./failure.ts";
import { ordinalOf } from "./rollout/slots.ts";

const MAX_NOTE = 1000;

export async function writeStatus(
  ports: ControllerPorts,
  service: InferenceService,
  status: InferenceServiceStatus,
): Promise<void> {
  const { name, namespace = "default" } = service.metadata;
  const object = { metadata: { name, namespace }, status } as InferenceService;
  const options = { manager: MANAGER_CONTROLLER, subresource: "status", current: service } as const;
  const result = await ports.client.apply(INFERENCE_SERVICES, object, options);
  if (!result.ok) {
    if (result.error.kind === "notFound" || result.error.kind === "conflict") return;
    throw new ApiCallFailed(`write the status of InferenceService ${name}`, result.error);
  }
  if (!result.value.sent) return;
  const { phase, reason } = status;
  const events = statusEvents(service.status, status);
  for (const event of events) reportOn(ports.record, INFERENCE_SERVICES, service, event);
  if (events.length > 0) ports.log.info({ service: `${namespace}/${name}`, phase, reason }, "phase changed");
}

/** One for a new phase or reason, and one for each step of a rollout. */
export function statusEvents(
  before: InferenceServiceStatus | undefined,
  after: InferenceServiceStatus,
): ReportedEvent[] {
  const events: ReportedEvent[] = [];
  const { phase, reason = "Unknown", message = "" } = after;
  if (before?.phase !== phase || before?.reason !== reason) {
    const isBad =
      phase === "Failed" ||
      phase === "WaitingForCapacity" ||
      reason === "RolloutStopped" ||
      isRejection(reason);
    events.push({ type: isBad ? "Warning" : "Normal", reason, action: "Reconcile", note: message });
  }
  const [was, is] = [before, after].map((status) => getCondition(status?.conditions, "Progressing"));
  const isRollout = is?.reason === "RolloutComplete" || is?.reason === "RolloutStopped";
  if (is !== undefined && isRollout && was?.reason !== is.reason && reason !== is.reason) {
    const type = is.reason === "RolloutStopped" ? "Warning" : "Normal";
    events.push({ type, reason: is.reason, action: "RollOut", note: is.message });
  }
  const warned = getCondition(before?.conditions, "Warnings");
  const warning = getCondition(after.conditions, "Warnings");
  if (warning?.status === "True" && warned?.message !== warning.message) {
    const { reason: why, message: note } = warning;
    events.push({ type: "Warning", reason: why, action: "Reconcile", note });
  }
  return events.map((event) => ({ ...event, note: event.note.slice(0, MAX_NOTE) }));
}

/** Every replica that came or goes, with why. */
export function tellReplicas(
  { record }: ControllerPorts,
  service: InferenceService,
  { made, removed }: Outcome,
  placed: readonly Placed[],
): void {
  const events: ReportedEvent[] = [];
  for (const replica of made) {
    const why = placed.find(({ ordinal }) => ordinal === ordinalOf(replica))?.why ?? "";
    const note = `${placeOf(replica)}: revision ${replica.spec.template.revision}${why === "" ? "" : `, ${why}`}`;
    events.push({ type: "Normal", reason: "ReplicaCreated", action: "Place", note });
  }
  for (const { replica, because } of removed) {
    const note = `${placeOf(replica)} is drained and stopped: ${because}`;
    events.push({ type: "Normal", reason: "ReplicaRemoved", action: "Remove", note });
  }
  for (const event of events) reportOn(record, INFERENCE_SERVICES, service, event);
}

function placeOf({ metadata, spec }: InferenceReplica): string {
  return `${metadata.name} on ${spec.template.hostName}`;
}
