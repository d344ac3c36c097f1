/** Reconciles one InferenceService on any path: removes orphans, tears it down or serves it, and writes its status. */

import { type ConditionUpdate, setCondition } from "../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { truncate } from "../../src/util/text.ts";
import { applyServiceSteps } from "../frame/apply/apply.ts";
import { ApiCallFailed } from "../frame/apply/failure.ts";
import { PartialRejection } from "../frame/apply/rejection.ts";
import { type ObservedService, observeService } from "../frame/owned/observe.ts";
import { planTeardown } from "../frame/owned/teardown.ts";
import { backendBlocked, backendOf } from "../frame/service/backend.ts";
import { withAllocation, withFlavor } from "../frame/service/flavor-report.ts";
import { idleConditions, idleStatus } from "../frame/service/idle-report.ts";
import {
  choosePath,
  type LiveService,
  modelKeyOf,
  type ServicePath,
  soonest,
} from "../frame/service/path.ts";
import { scaleService } from "./autoscaling/scale.ts";
import { withBackendStatus } from "./backend-status.ts";
import { planModelNames, undecidedNames } from "./model-names.ts";
import type { ServicePorts } from "./ports.ts";
import { routeService } from "./routes/route.ts";
import { knownStatus, writeStatus } from "./status.ts";

const CONFLICT_RETRY_MS = 1_000;
const MAX_MESSAGE = 4096;

/** `key` is `namespace/name`. Throws if only a retry can help. */
export async function reconcileService(ports: ServicePorts, key: string): Promise<Recheck | undefined> {
  const observed = observeService(ports.watches, key);
  const { service, own } = observed;
  const recheck = await removeOrphans(ports, key, observed);
  if (service !== undefined && !isBeingDeleted(service)) {
    const backend = backendOf(ports.watches, service);
    const blocked = backendBlocked(ports.watches, service);
    return serve(ports, { key, service, own, backend, blocked });
  }
  ports.foreign.forget(key);
  ports.retries.forget(key);
  ports.lastStatus.delete(key);
  ports.performance.forget(key);
  ports.flavors.forget(key);
  ports.idle.forget(key);
  for (const path of ports.paths) path.release(key, service === undefined);
  return service === undefined ? recheck : ((await tearDown(ports, service, observed)) ?? recheck);
}

async function tearDown(
  ports: ServicePorts,
  service: InferenceService,
  { own }: ObservedService,
): Promise<Recheck | undefined> {
  const steps = planTeardown(own, "the InferenceService is being deleted", service);
  const { rejections, isBehind } = await applyServiceSteps(ports, steps);
  if (rejections.length > 0) throw new PartialRejection(rejections);
  return isBehind ? { recheckAfterMs: CONFLICT_RETRY_MS } : undefined;
}

/** Phases in which the service no longer needs the replicas of another path. */
const NEEDS_NO_OTHER_PATH = new Set<InferenceServiceStatus["phase"]>([
  "Ready",
  "Stopped",
  "Suspended",
  "Idle",
]);

async function serve(ports: ServicePorts, observed: LiveService): Promise<Recheck | undefined> {
  const { key, service } = observed;
  const { performance, use, recheckAfterMs: performanceAfterMs } = ports.performance.of(observed);
  const idle = ports.idle.decide(observed, use);
  const { live, report, recheckAfterMs: flavorAfterMs } = ports.flavors.choose(idle.live);
  const chosen = choosePath(ports.paths, live, ports.watches.models.get(modelKeyOf(service)));
  // First, because a pass may wait for pods, and the Gateway must not send requests to replicas that are gone.
  const routed = await routeService(ports, observed);
  const others = ports.paths.filter((path) => path !== chosen && chosen.parts?.includes(path) !== true);
  // A path with parts has no state of its own, and its parts are in the list too. Paths of one platform share their state.
  for (const path of others) if (path.parts === undefined && path.on !== chosen.on) path.release(key, false);
  const kept = (await Promise.all(others.map((path) => path.keep?.(live) ?? []))).flat();
  const result = await chosen.reconcile(live);
  const { status, obstacle, rejections, recheckAfterMs } = result;
  const reported = withAllocation(report, live, result.allocatedFlavor);
  if (obstacle.at === "nameTaken") await removeSlices(ports, live);
  else ports.foreign.forget(key);
  const elsewhere = others.map((path) => ({ names: path.names, count: path.serving(live.own) }));
  const serving = elsewhere.find(({ count }) => count > 0);
  const available = serving === undefined ? status : servedElsewhere(ports, service, status, serving, chosen);
  const nowIso = isoSeconds(ports.clock.nowMs());
  const { on } = chosen;
  const scaled = await scaleService(ports, idle.live, { on, runtime: status.runtime });
  const names = await namesOf(ports, observed, nowIso);
  const updates = [
    ...movingCondition(ports, key),
    ...scaled.conditions,
    ...names.conditions,
    ...idleConditions(idle),
    ...routed.conditions,
  ];
  const placed = withFlavor(withConditions(service, available, updates, nowIso), observed, reported, nowIso);
  const complete = {
    ...withBackendStatus(observed, placed, nowIso),
    ...idleStatus(idle, status),
    on: runningOn(live) ?? on,
    performance,
    gateway: routed.gateway,
    modelNames: names.modelNames,
  };
  await writeStatus(ports, service, complete);
  if (NEEDS_NO_OTHER_PATH.has(status.phase)) {
    await applyServiceSteps(
      ports,
      others.flatMap((path) => path.leave(live.own, chosen)),
    );
  }
  const rejected = kept.length + rejections.length + scaled.rejections.length + routed.rejections.length;
  const retryMs = ports.retries.afterMs(key, rejected > 0, ports.clock.monotonicMs());
  return soonest([
    retryMs,
    recheckAfterMs,
    performanceAfterMs,
    flavorAfterMs,
    idle.recheckAfterMs,
    names.recheckAfterMs,
  ]);
}

/** By the last written status: before the watch shows it, a claim would be recorded again, with a later time. */
async function namesOf(ports: ServicePorts, { key, service }: LiveService, nowIso: string) {
  const { publicNames } = ports.watches;
  const known = { ...service, status: knownStatus(service, ports.lastStatus.get(key)) };
  const undecided = undecidedNames(publicNames, known);
  const exists = await ports.namespaces.read(undecided.map(({ namespace }) => namespace));
  return planModelNames(publicNames, known, exists, nowIso);
}

interface Serving extends Pick<ServicePath, "names"> {
  readonly count: number;
}

/** A service that moves to another path is Available through the old path until its new replicas are ready. */
function servedElsewhere(
  { clock }: ServicePorts,
  service: InferenceService,
  status: InferenceServiceStatus,
  { names, count }: Serving,
  to: ServicePath,
): InferenceServiceStatus {
  if (NEEDS_NO_OTHER_PATH.has(status.phase)) return status;
  const target = to.names === "replicas on hosts" ? "hosts" : to.names;
  const text = `${count} existing ${names} serve until the service is Ready on ${target}`;
  const { observedGeneration, conditions = [] } = status;
  const update = {
    type: "Available",
    status: "True" as const,
    reason: "ServedElsewhere",
    message: text,
    observedGeneration,
  };
  // Based on the last written condition: the path has set it to False, which would change its time in each pass.
  const before = service.status?.conditions?.filter(({ type }) => type === update.type);
  const available = setCondition(before, update, isoSeconds(clock.nowMs()));
  return {
    ...status,
    message: truncate(`${text}; ${status.message ?? ""}`, MAX_MESSAGE),
    conditions: conditions.flatMap((one) => (one.type === update.type ? available : one)),
  };
}

/** While replicas move to better machines. */
function movingCondition({ moving }: ServicePorts, key: string): ConditionUpdate[] {
  const reasons = moving.from(key).map(({ because }) => because);
  const message = truncate(reasons.join("; "), MAX_MESSAGE);
  return reasons.length === 0 ? [] : [{ type: "Moving", status: "True", reason: "FitnessFell", message }];
}

/** Adds conditions that do not depend on the path. */
function withConditions(
  { metadata: { generation: observedGeneration }, status: before }: InferenceService,
  status: InferenceServiceStatus,
  updates: readonly ConditionUpdate[],
  nowIso: string,
): InferenceServiceStatus {
  if (updates.length === 0) return status;
  const added = updates.flatMap((update) => {
    const last = before?.conditions?.filter(({ type }) => type === update.type);
    return setCondition(last, { ...update, observedGeneration }, nowIso);
  });
  const conditions = [...(status.conditions ?? []), ...added].sort((a, b) => (a.type < b.type ? -1 : 1));
  return { ...status, conditions };
}

/** Undefined without replicas. */
function runningOn({ own }: LiveService): string | undefined {
  const hasLive = (objects: readonly KubeObject[]) => !objects.every(isBeingDeleted);
  const on = [...(hasLive(own.replicas) ? ["Hosts"] : []), ...(hasLive(own.pods) ? ["Pods"] : [])];
  return on.length === 0 ? undefined : on.join("+");
}

/** A slice that carries the name of another owner's Service would send that Service's traffic to our engines. */
async function removeSlices(ports: ServicePorts, { key, own }: LiveService): Promise<void> {
  ports.foreign.watch(key);
  const because = "the Service of this name is not ours";
  await applyServiceSteps(
    ports,
    own.slices.map((object) => ({ do: "remove", what: "slices", object, because })),
  );
}

/** Delay before the next check while the watches are behind. */
const BEHIND_MS = 1_000;

/** Removes objects of earlier services of this name, after a live read has confirmed that their owner no longer exists. */
async function removeOrphans(
  ports: ServicePorts,
  key: string,
  { orphans }: ObservedService,
): Promise<Recheck | undefined> {
  if (orphans.size === 0) return undefined;
  const [namespace = "", name = ""] = key.split("/");
  const live = await ports.client.get(INFERENCE_SERVICES, { namespace, name });
  if (!live.ok && live.error.kind !== "notFound")
    throw new ApiCallFailed(`get InferenceService ${key}`, live.error);
  for (const [uid, owned] of orphans) {
    if (live.ok && live.value.metadata.uid === uid) return { recheckAfterMs: BEHIND_MS };
    const { rejections } = await applyServiceSteps(
      ports,
      planTeardown(owned, "its InferenceService no longer exists"),
    );
    if (rejections.length > 0) throw new PartialRejection(rejections);
  }
  return undefined;
}
