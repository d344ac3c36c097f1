/** One pass over one InferenceService: observe, plan, apply, tell. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { Demand, Placed } from "../../src/placement/types.ts";
import { momentOf } from "../placement/claims.ts";
import { planPreemptions } from "../placement/preempted.ts";
import { applySteps } from "./apply/apply.ts";
import { NotAllTaken } from "./apply/rejection.ts";
import type { Outcome } from "./apply/run.ts";
import { draftNow, soonest } from "./draft.ts";
import { claimsOf, noteWritten, settleClaims } from "./expected.ts";
import { type ServiceSeen, seeService } from "./observe.ts";
import { planService } from "./plan/plan.ts";
import type { ServiceStep } from "./plan/steps.ts";
import { planTeardown } from "./plan/teardown.ts";
import type { ServicePorts } from "./ports.ts";
import { stayingReplicas } from "./rollout/staying.ts";
import { earnedForMs } from "./status/priority.ts";
import { planStatus } from "./status/status.ts";
import { sweepStrays } from "./strays.ts";
import { tellReplicas, writeStatus } from "./tell.ts";

const BEHIND_MS = 1_000;
const REFRESH_MS = 60_000;

/** `key` is `namespace/name`. Throws where only trying again helps. */
export async function reconcileService(ports: ServicePorts, key: string): Promise<Recheck | undefined> {
  const seen = seeService(ports.caches, key);
  const { service } = seen;
  const behind = await sweepStrays(ports, key, seen);
  if (service === undefined) {
    ports.foreign.forget(key);
    ports.ledger.forget(key, ports.clock.monotonicMs());
    ports.memory.forget(key);
    tellStays(ports, key, new Map(), []);
    ports.onQueueChanged();
    return behind;
  }
  if (service.metadata.deletionTimestamp === undefined) return serve(ports, key, service, seen);
  ports.foreign.forget(key);
  if (ports.ledger.setDemands(key, [], ports.clock.monotonicMs())) ports.onQueueChanged();
  const steps = planTeardown(seen.own, "the InferenceService is being deleted", service);
  const outcome = await applySteps(ports, steps);
  if (outcome.rejections.length > 0) throw new NotAllTaken(outcome.rejections);
  return outcome.isBehind ? { recheckAfterMs: BEHIND_MS } : behind;
}

async function serve(
  ports: ServicePorts,
  key: string,
  service: InferenceService,
  seen: ServiceSeen,
): Promise<Recheck | undefined> {
  const { draft, preempted, recheckAfterMs } = draftNow(ports, key, service, seen);
  const { ledger } = ports;
  // All that wait are looked at together, so that a better claim elsewhere is not taken away here.
  ports.onDecided(ledger.plan(ports.clock.monotonicMs()).changed.filter((other) => other !== key));
  const { placed, waiting: unplaced } = ledger.answers(key, ports.clock.monotonicMs());
  tellStays(ports, key, stayingReplicas(draft, unplaced), [...draft.input.draining]);
  const steps = [
    ...planService(draft, placed, (demand, without) =>
      ledger.hasRoom(demand, without.map(keyOf), ports.clock.monotonicMs()),
    ),
    ...planPreemptions(draft.observed.replicas, ledger.orders(key)),
  ];
  const outcome = await applyExpecting(ports, service, steps, placed);
  noteWritten(ports, outcome);
  tellReplicas(ports, service, outcome, placed);
  if (outcome.obstacle.at === "nameTaken") await leaveForeignService(ports, key, seen);
  else ports.foreign.forget(key);
  letOthersMoveUp(
    ports,
    key,
    outcome,
    draft.demands.filter(({ ordinal }) => unplaced.some((one) => one.ordinal === ordinal)),
  );
  const { created, obstacle, rejections } = outcome;
  const status = planStatus({ draft, unplaced, created, obstacle, rejections, preempted }, now(ports));
  await writeStatus(ports, service, status);
  return soonest([
    outcome.isBehind ? BEHIND_MS : undefined,
    ports.memory.retryMs(key, rejections.length > 0, ports.clock.monotonicMs()),
    recheckAfterMs,
    // Figures of a long queue are brought up to date now and then; decisions are told at once.
    unplaced.length > 0 ? REFRESH_MS : undefined,
    earnedForMs(service, ports.clock.nowMs()),
  ]);
}

/** What is about to be made counts for placement from here on. */
async function applyExpecting(
  ports: ServicePorts,
  service: InferenceService,
  steps: readonly ServiceStep[],
  placed: readonly Placed[],
): Promise<Outcome> {
  const claims = claimsOf(steps, service, placed, momentOf(ports.clock));
  for (const claim of claims) ports.ledger.expect(claim, ports.clock.monotonicMs());
  try {
    const outcome = await applySteps(ports, steps);
    settleClaims(ports, claims, outcome);
    return outcome;
  } catch (error) {
    for (const { replica } of claims) ports.ledger.settle(replica);
    throw error;
  }
}

/** Placed demands wait no longer, nor do those of a service that is kept from all. */
function letOthersMoveUp(
  { ledger, clock, onQueueChanged }: ServicePorts,
  key: string,
  { obstacle }: Outcome,
  left: readonly Demand[],
): void {
  if (ledger.setDemands(key, obstacle.at === "none" ? left : [], clock.monotonicMs())) onQueueChanged();
}

/** A slice that carries the name of somebody else's Service would send its traffic to us. */
async function leaveForeignService(ports: ServicePorts, key: string, { own }: ServiceSeen): Promise<void> {
  ports.foreign.watch(key);
  const because = "the Service of this name is not ours";
  await applySteps(
    ports,
    own.slices.map((object) => ({ do: "remove", what: "slice", object, because })),
  );
}

function tellStays(
  { stays, onStaysChanged }: ServicePorts,
  key: string,
  found: ReadonlyMap<string, string>,
  hosts: readonly string[],
): void {
  if (stays.set(key, found)) onStaysChanged(hosts);
}

function keyOf({ metadata }: InferenceReplica): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function now({ clock }: ServicePorts): string {
  return new Date(clock.nowMs()).toISOString().replace(/\.\d{3}Z$/, "Z");
}
