/** Checks that a service serves what its spec asks for: one check for the console and for reports. Pure. */
import type { InferenceService } from "./index.ts";

/** Deliberate states. */
const RESTING: ReadonlySet<string> = new Set(["Idle", "Stopped", "Suspended"]);

export function isResting({ status }: Pick<InferenceService, "status">): boolean {
  return RESTING.has(status?.phase ?? "");
}

/** Ready if all desired replicas are. A service that rests, such as an idle one, is neither ready nor missing. */
export function servingOf(
  service: Pick<InferenceService, "spec" | "status">,
): "ready" | "notReady" | "resting" {
  const desired = desiredOf(service);
  if (desired === 0 || isResting(service)) return "resting";
  return (service.status?.readyReplicas ?? 0) >= desired ? "ready" : "notReady";
}

/** "1/2": the ready and the desired replicas. */
export function readyText(service: Pick<InferenceService, "spec" | "status">): string {
  return `${service.status?.readyReplicas ?? 0}/${desiredOf(service)}`;
}

/** Why a service, a replica or a Model is not Ready; empty if it is. */
export function unreadyMessage(status: { readonly phase?: string; readonly message?: string } = {}): string {
  return status.phase === "Ready" ? "" : (status.message ?? "");
}

export function desiredOf({ spec, status }: Pick<InferenceService, "spec" | "status">): number {
  return status?.desiredReplicas ?? (spec.suspend ? 0 : spec.replicas);
}
