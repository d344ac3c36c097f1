/** A service thought through as it is now, and its demands in the queue for capacity. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { claimOfReplica, type Moment, momentOf, waitingSince } from "../placement/claims.ts";
import { type PreemptedSlot, preemptedSlots, withPreempted } from "../placement/preempted.ts";
import { readRefusals } from "../placement/refusals.ts";
import { observeService, type ServiceSeen } from "./observe.ts";
import { draftService, type Findings, type ServiceDraft } from "./plan/plan.ts";
import type { ServicePorts } from "./ports.ts";
import { readHealth } from "./rollout/health.ts";
import { ordinalOf } from "./rollout/slots.ts";

/** What a pass begins with. */
export interface DraftNow {
  readonly draft: ServiceDraft;
  readonly preempted: ReadonlyMap<number, PreemptedSlot>;
  readonly recheckAfterMs: number | undefined;
}

/** The demands of a service as they are now; used before the first pass too, so that the queue is whole. */
export function draftNow(
  ports: ServicePorts,
  key: string,
  service: InferenceService,
  seen: ServiceSeen,
): DraftNow {
  const { clock, ledger, caches, memory } = ports;
  const moment = momentOf(clock);
  const replicas = memory.upToDate(service.metadata.uid ?? "", seen.own.replicas, moment.monotonicMs);
  const observed = observeService(caches, service, { ...seen.own, replicas });
  const { findings, recheckAfterMs } = findingsOn(ports, key, replicas, moment);
  noteClaims(ports, service, seen, moment);
  const bare = draftService(observed, findings);
  const slots = preemptedSlots(observed.replicas, service.status, ordinalOf);
  const waitingSinceMs = waitingSince(service, moment);
  const demands = withPreempted(bare.demands, slots).map((demand) =>
    waitingSinceMs === undefined ? demand : { ...demand, waitingSinceMs },
  );
  ledger.setDemands(key, demands, moment.monotonicMs);
  return { draft: { ...bare, demands }, preempted: slots, recheckAfterMs };
}

function findingsOn(
  { ledger, memory }: ServicePorts,
  key: string,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): { readonly findings: Findings; readonly recheckAfterMs: number | undefined } {
  const refusals = readRefusals(ledger.book(key), replicas, moment.monotonicMs);
  ledger.setBook(key, refusals.book);
  const { book, failing, unsettled, recheckAfterMs } = readHealth(memory.health(key), replicas, moment);
  memory.setHealth(key, book);
  return {
    findings: { displaced: refusals.displaced, refusals: refusals.book.refusals, failing, unsettled },
    recheckAfterMs: soonest([refusals.recheckAfterMs, recheckAfterMs])?.recheckAfterMs,
  };
}

/** Priority and protection of what runs follow the service, and it may have changed. */
function noteClaims(
  { ledger }: ServicePorts,
  service: InferenceService,
  { own }: ServiceSeen,
  moment: Moment,
): void {
  for (const replica of own.replicas) {
    const claim = claimOfReplica(replica, service, moment);
    ledger.noteClaim(claim.replica, claim);
  }
}

/** The soonest of these times. */
export function soonest(times: readonly (number | undefined)[]): Recheck | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : { recheckAfterMs: Math.min(...known) };
}
