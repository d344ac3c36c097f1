/** One pass over one InferenceService: observe, plan, apply, tell. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { EARNED_MS } from "../../src/placement/priority.ts";
import type { HostClaim, Placed } from "../../src/placement/types.ts";
import type { ControllerPorts } from "../cache/ports.ts";
import type { Stays } from "../host/stays.ts";
import { claimOfReplica, type Moment, momentOf, waitingSince } from "../placement/claims.ts";
import type { PlacementLedger } from "../placement/ledger.ts";
import {
  type PreemptedSlot,
  planPreemptions,
  preemptedSlots,
  withPreempted,
} from "../placement/preempted.ts";
import { readRefusals } from "../placement/refusals.ts";
import { applySteps, type Outcome } from "./apply.ts";
import { ApiCallFailed } from "./failure.ts";
import type { ForeignServices } from "./foreign-services.ts";
import type { ServiceMemory } from "./memory.ts";
import { observeService, type ServiceSeen, seeService } from "./observe.ts";
import { draftService, type Findings, planService, type ServiceDraft } from "./plan/plan.ts";
import { planTeardown } from "./plan/teardown.ts";
import { readHealth } from "./rollout/health.ts";
import { ordinalOf } from "./rollout/slots.ts";
import { stayingReplicas } from "./rollout/staying.ts";
import { earnedForMs } from "./status/priority.ts";
import { planStatus } from "./status/status.ts";
import { tellReplicas, writeStatus } from "./tell.ts";

const BEHIND_MS = 1_000;
const REFRESH_MS = 60_000;

export interface ServicePorts extends ControllerPorts {
  readonly ledger: PlacementLedger;
  readonly memory: ServiceMemory;
  readonly stays: Stays;
  readonly foreign: ForeignServices;
  /** What is said of replicas on these hosts, which are being drained, has changed. */
  readonly onStaysChanged: (hosts: readonly string[]) => void;
  /** Hosts, claims or demands have changed: placement is worth another look. */
  readonly onQueueChanged: () => void;
  /** The answers of these services may be others than before. */
  readonly onDecided: (services: readonly string[]) => void;
}

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
  return outcome.isBehind ? { recheckAfterMs: BEHIND_MS } : behind;
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
  const { findings, recheckAfterMs } = findingsOn(ports, key, replicas, moment.monotonicMs);
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
  nowMs: number,
): { readonly findings: Findings; readonly recheckAfterMs: number | undefined } {
  const refusals = readRefusals(ledger.book(key), replicas, nowMs);
  ledger.setBook(key, refusals.book);
  const { book, failing, unsettled, recheckAfterMs } = readHealth(memory.health(key), replicas, nowMs);
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

interface DraftNow {
  readonly draft: ServiceDraft;
  readonly preempted: ReadonlyMap<number, PreemptedSlot>;
  readonly recheckAfterMs: number | undefined;
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
  const claims = claimsOf(steps, service, placed, momentOf(ports.clock));
  for (const claim of claims) ports.ledger.expect(claim, ports.clock.monotonicMs());
  let outcome: Outcome;
  try {
    outcome = await applySteps(ports, steps);
  } catch (error) {
    for (const { replica } of claims) ports.ledger.settle(replica);
    throw error;
  }
  settleClaims(ports, claims, outcome);
  noteWritten(ports, outcome);
  tellReplicas(ports, service, outcome, placed);
  if (outcome.obstacle.at === "nameTaken") await leaveForeignService(ports, key, seen);
  else ports.foreign.forget(key);
  // Placed demands wait no longer, so the others move up.
  const left = draft.demands.filter(({ ordinal }) => unplaced.some((one) => one.ordinal === ordinal));
  const { monotonicMs } = momentOf(ports.clock);
  if (ledger.setDemands(key, outcome.obstacle.at === "none" ? left : [], monotonicMs)) ports.onQueueChanged();
  const { created, obstacle } = outcome;
  const status = planStatus({ draft, placed, unplaced, created, obstacle, preempted }, now(ports));
  await writeStatus(ports, service, status);
  return soonest([
    outcome.isBehind ? BEHIND_MS : undefined,
    recheckAfterMs,
    // Figures of a long queue are brought up to date now and then; decisions are told at once.
    unplaced.length > 0 ? REFRESH_MS : undefined,
    earnedForMs(service, ports.clock.nowMs()),
  ]);
}

/** What is about to be created, with the class that waiting has earned it. */
function claimsOf(
  steps: ReturnType<typeof planService>,
  service: InferenceService,
  placed: readonly Placed[],
  moment: Moment,
): HostClaim[] {
  return steps.flatMap((step) => {
    if (step.do !== "create" || step.what !== "replica") return [];
    const claim = claimOfReplica(step.object, service, moment);
    const earned = placed.find(({ ordinal }) => ordinal === ordinalOf(step.object))?.earned;
    if (claim.eviction === undefined || earned === undefined) return [claim];
    const untilMs = moment.monotonicMs + EARNED_MS;
    return [{ ...claim, eviction: { ...claim.eviction, earned: { priority: earned, untilMs } } }];
  });
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

/** What was created stays expected until the watch shows it; what was not is free again. */
function settleClaims(
  { caches, ledger }: ServicePorts,
  claims: readonly HostClaim[],
  { created }: Outcome,
): void {
  const made = new Set(created.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`));
  for (const { replica } of claims) {
    if (!made.has(replica) || caches.replicas.get(replica) !== undefined) ledger.settle(replica);
  }
}

/** The copies do not show it yet, and the next pass must not decide without it. */
function noteWritten({ caches, clock, memory }: ServicePorts, { created, removed }: Outcome): void {
  const atMs = clock.monotonicMs();
  for (const replica of created) {
    const { namespace, name, uid } = replica.metadata;
    const isSeen = caches.replicas.get(`${namespace}/${name}`)?.metadata.uid === uid;
    if (!isSeen) memory.noteCreated(replica, atMs);
  }
  for (const { replica } of removed) memory.noteRemoved(replica, atMs);
}

function tellStays(
  { stays, onStaysChanged }: ServicePorts,
  key: string,
  found: ReadonlyMap<string, string>,
  hosts: readonly string[],
): void {
  if (stays.set(key, found)) onStaysChanged(hosts);
}

/** What another uid of this name left behind: only after a live read has said that its owner is gone. */
async function sweepStrays(
  ports: ServicePorts,
  key: string,
  { strays }: ServiceSeen,
): Promise<Recheck | undefined> {
  if (strays.size === 0) return undefined;
  const [namespace = "", name = ""] = key.split("/");
  const live = await ports.client.get(INFERENCE_SERVICES, { namespace, name });
  if (!live.ok && live.error.kind !== "notFound")
    throw new ApiCallFailed(`get InferenceService ${key}`, live.error);
  for (const [uid, belongings] of strays) {
    if (live.ok && live.value.metadata.uid === uid) return { recheckAfterMs: BEHIND_MS };
    await applySteps(ports, planTeardown(belongings, "its InferenceService is gone"));
  }
  return undefined;
}

function keyOf({ metadata }: InferenceReplica): string {
  return `${metadata.namespace}/${metadata.name}`;
}

function now({ clock }: ServicePorts): string {
  return new Date(clock.nowMs()).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function soonest(times: readonly (number | undefined)[]): Recheck | undefined {
  const known = times.filter((time) => time !== undefined);
  return known.length === 0 ? undefined : { recheckAfterMs: Math.min(...known) };
}
