/** Reconciles one InferenceService on any path: removes orphans, tears it down or serves it, and writes its status. */

import { type ConditionUpdate, withConditions } from "../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { truncate } from "../../src/util/text.ts";
import { ApiCallFailed } from "../frame/apply/failure.ts";
import { PartialRejection, type Rejection } from "../frame/apply/rejection.ts";
import { type ObservedService, observeService } from "../frame/owned/observe.ts";
import type { PathStep } from "../frame/owned/steps.ts";
import { planTeardown } from "../frame/owned/teardown.ts";
import { backendBlocked, backendOf } from "../frame/service/backend.ts";
import { type ChosenFlavor, flavorStatus, withAllocation } from "../frame/service/flavor-report.ts";
import { type IdleDecision, idleStatus } from "../frame/service/idle-report.ts";
import { choosePath, type LiveService, modelKeyOf, type PathResult, soonest } from "../frame/service/path.ts";
import { planScaling } from "./autoscaling/scale.ts";
import { withBackendStatus } from "./backend-status.ts";
import { planModelNames, undecidedNames } from "./model-names.ts";
import { planObjective, unhonoredObjective } from "./objectives/objective.ts";
import { needsNoOtherPath, type PassInput, type PassStep, planServicePass } from "./plan.ts";
import type { ServicePorts } from "./ports.ts";
import { planRoute } from "./routes/route.ts";
import { knownStatus } from "./status.ts";

/** Delay before the next check while the watches are behind. */
const BEHIND_MS = 1_000;
const MAX_MESSAGE = 4096;

/** `key` is `namespace/name`. Throws if only a retry can help. */
export async function reconcileService(ports: ServicePorts, key: string): Promise<Recheck | undefined> {
  const observed = observeService(ports.watches, key);
  const { service } = observed;
  const recheck = await removeOrphans(ports, key, observed);
  if (service !== undefined && !isBeingDeleted(service))
    return applyPass(ports, observePass(ports, key, observed, service));
  const { foreign, retries, performance, flavors, idle } = ports;
  for (const part of [foreign, retries, performance, flavors, idle]) part.forget(key);
  ports.lastStatus.delete(key);
  for (const path of ports.paths) path.release(key, service === undefined);
  if (service === undefined) return recheck;
  return (await tearDown(ports, observed.own, "the InferenceService is being deleted", service)) ?? recheck;
}

/** Throws if a removal is rejected. */
async function tearDown(
  ports: ServicePorts,
  ...plan: Parameters<typeof planTeardown>
): Promise<Recheck | undefined> {
  const { rejections, isBehind } = await ports.apply(planTeardown(...plan));
  if (rejections.length > 0) throw new PartialRejection(rejections);
  return isBehind ? { recheckAfterMs: BEHIND_MS } : undefined;
}

/** Everything that the plan and the report of a pass need. */
interface Pass extends PassInput {
  /** The service as its user wrote it. */
  readonly written: LiveService;
  readonly idle: IdleDecision;
  readonly flavor: ChosenFlavor;
  readonly performance: ReturnType<ServicePorts["performance"]["update"]>;
}

/** Reads the watches, and decides whether the service stays loaded and on which flavor it runs. */
function observePass(
  ports: ServicePorts,
  key: string,
  { own }: ObservedService,
  service: InferenceService,
): Pass {
  const backend = backendOf(ports.watches, service);
  const written = { key, service, own, backend, blocked: backendBlocked(ports.watches, service) };
  const performance = ports.performance.update(written);
  const idle = ports.idle.decide(written, performance.use);
  const flavor = ports.flavors.choose(idle.live);
  const { live } = flavor;
  const { paths } = ports;
  const chosen = choosePath(paths, live, ports.watches.models.get(modelKeyOf(service)));
  return { written, live, idle, flavor, performance, chosen, paths, route: planRoute(ports, written) };
}

/** What the steps so far have found. */
interface PassRun {
  result?: PathResult;
  gateway?: InferenceServiceStatus["gateway"];
  objective?: ConditionUpdate | undefined;
  readonly conditions: ConditionUpdate[];
  rejections: number;
  namesAfterMs?: number | undefined;
}

async function applyPass(ports: ServicePorts, pass: Pass): Promise<Recheck | undefined> {
  const { live, performance, flavor, idle } = pass;
  const run: PassRun = { conditions: movingCondition(ports, live.key), rejections: 0 };
  for (const step of planServicePass(pass)) await applyStep(ports, pass, run, step);
  return soonest([
    ports.retries.note(live.key, run.rejections > 0, ports.clock.monotonicMs()),
    run.result?.recheckAfterMs,
    performance.recheckAfterMs,
    flavor.recheckAfterMs,
    idle.recheckAfterMs,
    run.namesAfterMs,
  ]);
}

async function applyStep(ports: ServicePorts, pass: Pass, run: PassRun, step: PassStep): Promise<void> {
  const { live, chosen } = pass;
  switch (step.do) {
    case "route": {
      const { gateway, conditions } = step.route.report(await applyCounted(ports, run, step.route.steps));
      run.gateway = gateway;
      run.conditions.push(...conditions);
      return;
    }
    case "release":
      return step.path.release(live.key, false);
    case "keep":
      await applyCounted(ports, run, step.steps);
      return;
    case "run":
      run.result = await step.path.reconcile(live);
      run.rejections += run.result.rejections.length;
      return;
    case "yieldName":
      if (resultOf(run).obstacle.at !== "nameTaken") return ports.foreign.forget(live.key);
      ports.foreign.watch(live.key);
      await ports.apply(step.steps);
      return;
    case "scale": {
      const scaling = planScaling(ports, pass.idle.live, { on: chosen.on, status: resultOf(run).status });
      run.conditions.push(...scaling.report(await applyCounted(ports, run, scaling.steps)));
      return;
    }
    case "watchObjective": {
      const objective = planObjective(ports, live);
      run.objective = objective.report(await applyCounted(ports, run, objective.steps));
      return;
    }
    case "writeStatus":
      return report(ports, pass, run, step.elsewhere);
    case "leave":
      if (needsNoOtherPath(resultOf(run).status)) await ports.apply(step.steps);
      return;
    default:
      return step satisfies never;
  }
}

/** A pass with rejections is retried. */
async function applyCounted(
  ports: ServicePorts,
  run: PassRun,
  steps: readonly PathStep[],
): Promise<readonly Rejection[]> {
  const { rejections } = await ports.apply(steps);
  run.rejections += rejections.length;
  return rejections;
}

function resultOf({ result }: PassRun): PathResult {
  if (result === undefined) throw new Error("the plan of a pass runs its path first");
  return result;
}

async function report(
  ports: ServicePorts,
  { written, live, idle, flavor, performance, chosen }: Pass,
  run: PassRun,
  elsewhere: ConditionUpdate | undefined,
): Promise<void> {
  const { service } = written;
  const nowIso = isoSeconds(ports.clock.nowMs());
  const names = await namesOf(ports, written, nowIso);
  run.namesAfterMs = names.recheckAfterMs;
  const { status, allocatedFlavor } = resultOf(run);
  const flavorReport = withAllocation(flavor.report, live, allocatedFlavor);
  const moved = needsNoOtherPath(status) ? undefined : elsewhere;
  const { objective } = run;
  const ofObjective = [objective, unhonoredObjective(objective, status.conditions)];
  const found = [...run.conditions, ...names.conditions, idle.condition, moved, flavorReport?.condition];
  found.push(...ofObjective);
  const updates = found.filter((update) => update !== undefined);
  const conditions = withConditions(service, status.conditions, updates, nowIso);
  const message = moved && truncate(`${moved.message}; ${status.message ?? ""}`, MAX_MESSAGE);
  const placed = { ...status, message: message ?? status.message, conditions, ...flavorStatus(flavorReport) };
  await ports.writeStatus(service, {
    ...withBackendStatus(written, placed, nowIso),
    ...idleStatus(idle, status),
    on: runningOn(live) ?? chosen.on,
    performance: performance.performance,
    gateway: run.gateway,
    modelNames: names.modelNames,
  });
}

/** By the last written status: before the watch shows it, a claim would be recorded again, with a later time. */
async function namesOf(ports: ServicePorts, { key, service }: LiveService, nowIso: string) {
  const { publicNames } = ports.watches;
  const known = { ...service, status: knownStatus(service, ports.lastStatus.get(key)) };
  const undecided = undecidedNames(publicNames, known);
  const exists = await ports.namespaces.read(undecided.map(({ namespace }) => namespace));
  return planModelNames(publicNames, known, exists, nowIso);
}

/** While replicas move to better machines. */
function movingCondition({ moving }: ServicePorts, key: string): ConditionUpdate[] {
  const reasons = moving.from(key).map(({ because }) => because);
  const message = truncate(reasons.join("; "), MAX_MESSAGE);
  return reasons.length === 0 ? [] : [{ type: "Moving", status: "True", reason: "FitnessFell", message }];
}

/** Undefined without replicas. */
function runningOn({ own }: LiveService): string | undefined {
  const hasLive = (objects: readonly KubeObject[]) => !objects.every(isBeingDeleted);
  const on = [...(hasLive(own.replicas) ? ["Hosts"] : []), ...(hasLive(own.pods) ? ["Pods"] : [])];
  return on.length === 0 ? undefined : on.join("+");
}

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
    await tearDown(ports, owned, "its InferenceService no longer exists");
  }
  return undefined;
}
