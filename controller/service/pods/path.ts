/** The path of services in pods: the controller applies a Deployment and related objects, and Kubernetes runs the pods. */

import { ANNOTATION_NODE_MOVE, MANAGER_AUTOSCALING, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import { DEPLOYMENTS } from "../../../src/kube/kinds.ts";
import type { Deployment, Pod } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { reportOn } from "../../watches/events.ts";
import { readReportedNode } from "../../watches/nodes.ts";
import { type PodNeed, type PodsInput, type PodsResolved, resolvePods } from "../../workload/resolve.ts";
import { podRevisionOf } from "../../workload/revision.ts";
import { SURGE_ONE } from "../../workload/strategy.ts";
import { applyServiceSteps } from "../apply/apply.ts";
import { ApiCallFailed } from "../apply/failure.ts";
import { ownedForPods } from "../owned/observe.ts";
import { planTeardown } from "../owned/teardown.ts";
import {
  type LiveService,
  modelKeyOf,
  namedModels,
  type PathResult,
  type ServicePath,
  soonest,
} from "../path.ts";
import { readPodsInFlight } from "./in-flight.ts";
import { readMountProblem } from "./mounts.ts";
import { podNodeProblem, readPodExitProblem } from "./node-problems.ts";
import {
  isChosenByUser,
  judgeNodes,
  type NodeMove,
  nodeChoiceOf,
  nodeMoveInProgress,
  type ObservedNodes,
  previousNodeChoice,
  settleNodeChoice,
} from "./nodes.ts";
import type { Offload } from "./offload.ts";
import { planPods } from "./plan.ts";
import { isLive, isMakingRoom, type ObservedPods, readPods } from "./pods.ts";
import type { PodsPorts } from "./ports.ts";
import { planPodsRollout, podsToProbe, type Rollout } from "./rollout.ts";
import { planPodsStatus } from "./status.ts";

const CONFLICT_RETRY_MS = 1_000;

export function createPodsPath(ports: PodsPorts): ServicePath {
  return {
    on: "Pods",
    prepare: ({ key, own }) => {
      updateQueue(ports, key, readPods(own.pods));
    },
    reconcile: (live) => reconcile(ports, live),
    release: (key) => {
      ports.offloads.forget(key);
      ports.onPositions(ports.podsQueue.set(key, undefined));
    },
    serving: ({ pods }) => readPods(pods).ready,
    leave: (own) => planTeardown(ownedForPods(own), "the service runs on hosts now"),
  };
}

async function reconcile(ports: PodsPorts, live: LiveService): Promise<PathResult> {
  const { key, service, own } = live;
  const { watches, clock } = ports;
  const input = inputOf(ports, live);
  const { model, live: deployment } = input;
  const { pods, recheckAfterMs: mountsAfterMs } = await observePods(ports, own.pods);
  const { resolution, nodes, recheckAfterMs: moveAfterMs } = withNodes(ports, input, { pods, live });
  if (resolution.at === "resolved") await handOverReplicas(ports, resolution, deployment);
  const rollout =
    resolution.at === "resolved" ? await rolloutOf(ports, live, resolution.workload.deployment) : undefined;
  const { obstacle, rejections, restored, applied, isBehind } = await applyServiceSteps(
    ports,
    planPods({
      service,
      own,
      model,
      resolution:
        resolution.at === "resolved" && rollout !== undefined
          ? withDeployment(resolution, rollout.deployment)
          : resolution,
      hasPodMonitors: watches.podMonitors.isSynced(),
    }),
  );
  for (const object of restored) {
    const note = `${object} was edited by another client; the state specified by the InferenceService is restored`;
    const event = { type: "Warning", reason: "ObjectRestored", action: "Restore", note } as const;
    reportOn(ports.record, INFERENCE_SERVICES, service, event);
  }
  updateQueue(ports, key, pods);
  const observed = {
    service,
    model,
    resolution,
    // The applied Deployment has a new generation, so its old status does not make the service Ready.
    deployment: (applied.get("deployments") as Deployment | undefined) ?? deployment,
    pods,
    autoscaler: own.autoscalers[0],
    deferral: rollout?.deferral,
    offload: offloadOf(ports, key, resolution, own.pods),
    nodes,
    queuePosition: ports.podsQueue.positionOf(key),
    obstacle,
    rejections,
  };
  return {
    status: planPodsStatus(observed, isoSeconds(clock.nowMs())),
    obstacle,
    rejections,
    lacking:
      resolution.at === "blocked" && resolution.isFinal
        ? service.spec.replicas
        : (pods.unscheduled?.pods ?? 0),
    ...soonest([
      isBehind ? CONFLICT_RETRY_MS : undefined,
      rollout?.recheckAfterMs,
      moveAfterMs,
      mountsAfterMs,
    ]),
  };
}

function inputOf({ watches, settings }: PodsPorts, { service, own }: LiveService): PodsInput {
  return {
    service,
    ...namedModels(watches.models, service),
    isOnlyService: watches.servicesOfModel.of(modelKeyOf(service)).length === 1,
    settings,
    live: own.deployments[0],
  };
}

/** Reads pods, nodes and Events. Only Events have the problems of pods that wait for volumes or that their node stopped. */
async function observePods({ watches, client, clock }: PodsPorts, own: readonly Pod[]) {
  const pods = readPods(own);
  const { problem: mountProblem, recheckAfterMs } = await readMountProblem(client, own, clock.nowMs());
  const known = podNodeProblem(own, watches.nodes.get) ?? pods.problem ?? mountProblem;
  return { pods: { ...pods, problem: known ?? (await readPodExitProblem(client, own)) }, recheckAfterMs };
}

interface ResolvedOnNodes {
  readonly resolution: PodsResolved | Blocked;
  readonly nodes?: ObservedNodes;
  readonly recheckAfterMs?: number;
}

/** Resolves the service. With placement.mode Auto, it also chooses nodes once the Model is read. */
function withNodes(
  ports: PodsPorts,
  input: PodsInput,
  { pods, live }: { readonly pods: ObservedPods; readonly live: LiveService },
): ResolvedOnNodes {
  const { clock, moving, nodeProbes } = ports;
  const { service, model } = input;
  const resolution = resolvePods(input);
  if (service.spec.placement.mode !== "Auto" || resolution.at === "blocked" || model === undefined)
    return { resolution };
  if (isChosenByUser(service.spec)) return { resolution, nodes: { at: "chosenByUser" } };
  const { need: pod } = resolution;
  const judged = judgedNodes(ports, model, pod);
  nodeProbes.probe((judged ?? []).flatMap(({ name, fit }) => (fit.at === "unknown" ? [name] : [])));
  const { own, key } = live;
  const [deployment] = own.deployments;
  const before = previousNodeChoice(deployment);
  const unchanged = before && resolvePods({ ...input, nodes: before });
  const last = deployment && podRevisionOf(deployment.spec.template);
  const departures = moving.from(key).filter(({ by }) => by === "pod");
  const leaving = new Set(departures.map(({ machine }) => machine));
  const { choice, move, blocked, recheckAfterMs } = settleNodeChoice({
    before,
    judged,
    leaving,
    move: nodeMoveInProgress(deployment),
    nowMs: clock.nowMs(),
    hasMoveStrategy:
      !isDeepEqual(resolution.workload.deployment.spec.strategy, SURGE_ONE) &&
      isDeepEqual(deployment?.spec.strategy, SURGE_ONE),
    fresh: nodeChoiceOf(judged ?? [], leaving, new Set(departures.flatMap(({ notTo }) => notTo))),
    isTemplateSame:
      unchanged?.at === "resolved" &&
      deployment !== undefined &&
      podRevisionOf(unchanged.workload.deployment.spec.template) === last,
    pods: {
      isServing: pods.ready > 0,
      isWaiting: pods.unscheduled !== undefined,
      isRoomMade: own.pods.some(isMakingRoom),
      on: own.pods.filter(isLive).flatMap(({ spec }) => spec.nodeName ?? []),
      hasOld: own.pods.some((one) => isLive(one) && podRevisionOf(one) !== last),
      isRollingOut: deployment !== undefined && isRollingOut(deployment),
    },
  });
  if (blocked !== undefined) cancelMove(ports, live, BLOCKED_NOTES[blocked](pods));
  const chosen = resolvePods({ ...input, nodes: choice });
  return {
    resolution: move === undefined ? chosen : withMove(chosen, move),
    nodes: judged === undefined ? { at: "notScored" } : { at: "judged", judged },
    recheckAfterMs,
  };
}

/** Undefined without fitness. */
function judgedNodes({ watches, fitness }: PodsPorts, model: Model, pod: PodNeed) {
  if (fitness === undefined) return undefined;
  const { settings, claimBytes } = pod;
  const { source } = model.spec;
  const quantization = model.status?.gguf?.quantization;
  const scorer = fitness.forReplica({ source, quantization, settings, claimBytes });
  const nodes = watches.nodes.list().map((node) => readReportedNode(fitness, node, watches.nodeReports));
  return judgeNodes(scorer, pod, nodes);
}

function isRollingOut({ metadata, status = {} }: Deployment): boolean {
  const { observedGeneration = 0, updatedReplicas = 0, replicas = 0 } = status;
  return observedGeneration < (metadata.generation ?? 0) || updatedReplicas < replicas;
}

const BLOCKED_NOTES = {
  NoNode: ({ unscheduled }: ObservedPods) =>
    `no other node fits the pod, so it stays on its node: ${unscheduled?.message ?? ""}`,
  NotReady: () => "no other pod became Ready within 30 minutes, so the ready pod stays on its node",
  RollingOut: () => "a rollout is in progress; the pod stays on its node",
};

function cancelMove({ moving, record }: PodsPorts, { key, service }: LiveService, note: string): void {
  moving.giveUp(key);
  const event = { type: "Warning", reason: "MoveBlocked", action: "Move", note } as const;
  reportOn(record, INFERENCE_SERVICES, service, event);
}

/** For a move to other nodes, no pod stops before its replacement is ready, even with GPUs. */
function withMove(resolution: PodsResolved | Blocked, move: NodeMove): PodsResolved | Blocked {
  if (resolution.at === "blocked") return resolution;
  const { metadata, spec } = resolution.workload.deployment;
  const annotations = { ...metadata.annotations, [ANNOTATION_NODE_MOVE]: JSON.stringify(move) };
  return withDeployment(resolution, {
    ...resolution.workload.deployment,
    metadata: { ...metadata, annotations },
    spec: { ...spec, strategy: SURGE_ONE },
  });
}

async function rolloutOf(
  { client, clock, record }: PodsPorts,
  { service, own }: LiveService,
  desired: Deployment,
): Promise<Rollout> {
  const input = { spec: service.spec, desired, current: own.deployments[0], pods: own.pods };
  const nowMs = clock.nowMs();
  const inFlight = await readPodsInFlight(client, service, podsToProbe(input, nowMs));
  const rollout = planPodsRollout(input, inFlight, nowMs);
  if (rollout.isForced) {
    const note =
      "old pods are replaced: they did not become idle in time, so their last requests are drained";
    const event = { type: "Warning", reason: "IdleTimeoutExceeded", action: "RollOut", note } as const;
    reportOn(record, INFERENCE_SERVICES, service, event);
  }
  return rollout;
}

function withDeployment(resolution: PodsResolved, deployment: Deployment): PodsResolved {
  return { ...resolution, workload: { ...resolution.workload, deployment } };
}

/** Undefined if the engine cannot silently fall back to the CPU. */
function offloadOf(
  { offloads }: PodsPorts,
  key: string,
  resolution: PodsResolved | Blocked,
  pods: readonly Pod[],
): Offload | undefined {
  if (resolution.at === "blocked" || resolution.gpuCount === 0) return undefined;
  const { offloaded } = engineDescription(resolution.runtime)?.pod ?? {};
  return typeof offloaded === "function" ? offloads.read(key, pods, offloaded) : undefined;
}

function updateQueue(
  { podsQueue, onPositions }: PodsPorts,
  key: string,
  { unscheduled }: ObservedPods,
): void {
  const { priority, sinceMs } = unscheduled ?? {};
  const isWaiting = priority !== undefined && sinceMs !== undefined;
  onPositions(podsQueue.set(key, isWaiting ? { key, priority, sinceMs } : undefined));
}

/**
 * Hands the number of replicas over to an autoscaler. If the only owner of a field leaves it out of an apply, the field falls back
 * to its default, here one replica. A second owner keeps the number.
 */
async function handOverReplicas(
  { client }: PodsPorts,
  { workload }: PodsResolved,
  current: Deployment | undefined,
): Promise<void> {
  if (workload.deployment.spec.replicas !== undefined || current?.spec.replicas === undefined) return;
  const isOurs = current.metadata.managedFields?.some(
    ({ manager, fieldsV1 }) =>
      manager === MANAGER_CONTROLLER && JSON.stringify(fieldsV1 ?? {}).includes('"f:replicas"'),
  );
  if (isOurs !== true) return;
  const { name, namespace } = current.metadata;
  const object = { metadata: { name, namespace }, spec: { replicas: current.spec.replicas } };
  const result = await client.apply(DEPLOYMENTS, object as Deployment, {
    manager: MANAGER_AUTOSCALING,
    current,
  });
  if (!result.ok && result.error.kind !== "notFound" && result.error.kind !== "conflict")
    throw new ApiCallFailed(`keep the replicas of Deployment ${name}`, result.error);
}
