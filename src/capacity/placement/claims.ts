/** The claim of a replica on its host, and the priority from which it may be preempted. Pure. */
import { getCondition } from "../../api/conditions.ts";
import { ANNOTATION_PREEMPTED_BY } from "../../api/group.ts";
import type { InferenceReplica } from "../../api/inference-replica.ts";
import type { InferenceService } from "../../api/inference-service/index.ts";
import { isBeingDeleted } from "../../api/metadata.ts";
import { keyOf } from "../../api/names.ts";
import { countsRequestsOnHosts } from "../../engines/registry.ts";
import type { Moment } from "../../util/moment.ts";
import { EARNED_MS, PRIORITIES, TURN_PRIORITY, unusedPriority } from "./priority.ts";
import type { HostClaim } from "./types.ts";

/** The memory of a service with spec.idle that others may have: all others if it is not used, those that take turns once its turn has finished. */
export type MemoryOffer =
  | {
      readonly to: "all";
      /** Monotonic time of the last use. */
      readonly unusedSinceMs: number;
    }
  | { readonly to: "turns" };

/** A replica whose service is unknown or being deleted cannot be preempted. */
export function claimOfReplica(
  replica: InferenceReplica,
  service: InferenceService | undefined,
  moment: Moment,
  offer?: MemoryOffer,
): HostClaim {
  const claim = replicaClaim(replica);
  if (service === undefined || service.metadata.uid !== replica.spec.template.serviceUid) return claim;
  const { allowEviction } = service.spec.placement;
  if (!allowEviction || service.spec.evictionProtection) return claim;
  if (offer?.to === "all") return { ...claim, eviction: { priority: unusedPriority(offer.unusedSinceMs) } };
  const turn = offer === undefined ? undefined : TURN_PRIORITY;
  const priority = PRIORITIES[service.spec.priority];
  const earned = earnedBy(service, priority, moment);
  return { ...claim, eviction: earned === undefined ? { priority, turn } : { priority, turn, earned } };
}

/**
 * Requests in flight of a replica; undefined if they are not known. The performance of an idle engine is absent from the status, as
 * is that of an engine that reports nothing.
 */
export function requestsOfReplica({
  spec,
  status,
}: Pick<InferenceReplica, "spec" | "status">): number | undefined {
  const isCounted = countsRequestsOnHosts(spec.template);
  const isIdle = isCounted && status?.phase === "Ready" && status.performance === undefined;
  return isIdle ? 0 : status?.performance?.requestsInFlight;
}

/** Monotonic time since which a service is pending; undefined if its status does not state it. */
export function waitingSince({ status }: InferenceService, moment: Moment): number | undefined {
  const placed = getCondition(status?.conditions, "Placed");
  if (placed?.status !== "False") return undefined;
  return monotonicOf(placed.lastTransitionTime, moment);
}

function earnedBy(
  { status }: InferenceService,
  priority: number,
  moment: Moment,
): { priority: number; untilMs: number } | undefined {
  const reached = status?.effectivePriority ?? 0;
  const placed = getCondition(status?.conditions, "Placed");
  if (reached <= priority || placed === undefined) return undefined;
  // While some replicas are still pending, the placed replicas keep the class too.
  const since =
    placed.status === "True" ? monotonicOf(placed.lastTransitionTime, moment) : moment.monotonicMs;
  const untilMs = since + EARNED_MS;
  return untilMs > moment.monotonicMs ? { priority: reached, untilMs } : undefined;
}

function monotonicOf(timestamp: string, { wallMs, monotonicMs }: Moment): number {
  const agoMs = wallMs - Date.parse(timestamp);
  return Number.isFinite(agoMs) ? monotonicMs - Math.max(0, agoMs) : monotonicMs;
}

/** Claims the estimate, or the used memory if that is more. The claim counts until the object is deleted. */
function replicaClaim({ metadata, spec, status }: InferenceReplica): HostClaim {
  const { claimBytes = 0, footprintBytes = 0 } = status?.memory ?? {};
  const isLeaving = isBeingDeleted({ metadata }) || spec.drain !== undefined;
  return {
    replica: keyOf(metadata),
    service: keyOf({ namespace: metadata.namespace, name: spec.template.serviceName }),
    host: spec.template.hostName,
    bytes: Math.max(spec.memory.claimBytes, claimBytes, footprintBytes),
    load: loadOf({ spec, status }),
    leaving: isLeaving ? { for: metadata.annotations?.[ANNOTATION_PREEMPTED_BY] } : undefined,
  };
}

function loadOf(replica: Pick<InferenceReplica, "spec" | "status">): HostClaim["load"] {
  const requests = requestsOfReplica(replica);
  const { parallelSlots: slots = 1 } = replica.spec.template.engine;
  return requests === undefined ? undefined : { requests, slots };
}
