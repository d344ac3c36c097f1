/** Reports whether a service is idle: in its status, as condition Idle, and as an Event when it wakes. Pure. */
import { type ConditionUpdate, getCondition } from "../../../src/api/conditions.ts";
import type { InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { MemoryOffer } from "../../../src/capacity/placement/claims.ts";
import type { Recheck } from "../../../src/kube/queue.ts";
import type { ReportedEvent } from "../watches/events.ts";
import type { LiveService } from "./path.ts";

/** The own activity of the replicas: requests in flight, or tokens within the last minute. */
export type Use = "busy" | "quiet" | "unknown";

/** A service as it runs now: while it is idle, it is suspended, and its status says so. */
export interface IdleDecision extends Recheck {
  readonly live: LiveService;
  /** Undefined without spec.idle, and without desired replicas. */
  readonly condition?: ConditionUpdate;
}

export interface IdleServices {
  /** `use` is that of the replicas in this moment. */
  readonly decide: (live: LiveService, use: Use) => IdleDecision;
  /** Notes the renewal of a demand Lease; `key` is `namespace/name` of the service. */
  readonly noteDemand: (key: string, mark: string) => void;
  /** Notes that the replicas of a service have requests. */
  readonly noteUse: (key: string) => void;
  /** The memory of the replicas, if others may have it. */
  readonly offer: (key: string) => MemoryOffer | undefined;
  /** True if a service becomes idle in its next pass, when the scheduler preempts it for service `to`. */
  readonly yieldsTo: (key: string, to: string) => boolean;
  readonly forget: (key: string) => void;
}

/** No service is ever idle. */
export const NEVER_IDLE: IdleServices = {
  decide: (live) => ({ live }),
  noteDemand: () => {},
  noteUse: () => {},
  offer: () => undefined,
  yieldsTo: () => false,
  forget: () => {},
};

/** The phase of an idle service explains why it is idle. */
export function idleStatus(
  { live, condition }: IdleDecision,
  { phase }: InferenceServiceStatus,
): Partial<InferenceServiceStatus> {
  if (condition === undefined) return {};
  const { idle } = live.service.status ?? {};
  const { reason, message } = condition;
  return phase === "Idle" ? { idle, reason, message } : { idle };
}

/** An idle service that wakes. The phase reports that it became idle. */
export function wakeEvent(
  before: InferenceServiceStatus | undefined,
  { conditions }: InferenceServiceStatus,
): ReportedEvent | undefined {
  const is = getCondition(conditions, "Idle");
  if (is?.reason !== "Waking" || getCondition(before?.conditions, "Idle")?.status !== "True")
    return undefined;
  return { type: "Normal", reason: is.reason, action: "Wake", note: is.message };
}
