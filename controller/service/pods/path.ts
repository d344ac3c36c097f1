/** Services as pods: the controller applies a Deployment and what surrounds it, Kubernetes runs them. */

import { ANNOTATION_NODE_MOVE, MANAGER_AUTOSCALING, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
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
import { type LiveService, modelKeyOf, type PathResult, type ServicePath, soonest } from "../path.ts";
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
import { isMakingRoom, type ObservedPods, readPods } from "./pods.ts";
import type { PodsPorts } from "./ports.ts";
import { isLive, planPodsRollout, podsToProbe, type Rollout } from "./rollout.ts";
import { planPodsStatus } from "./status.ts";

const BEHIND_MS = 1_000;

export function createPodsPath(ports: PodsPorts): ServicePath {
  return {
    on: "Pods",
    prepare: ({ key, own }) => {
      queueUp(ports, key, readPods(own.pods));
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
  const { pods, ...mounting } = await seePods(ports, own.pods);
  const { resolution, nodes, ...later } = withNodes(ports, input, { pods, live });
  if (resolution.at === "resolved") await handOverReplicas(ports, resolution, deployment);
  const rollout =
    resolution.at === "resolved" ? await rollOut(ports, live, resolution.workload.deployment) : undefined;
  const { obstacle, rejections, restored, applied, isBehind } = await applyServiceSteps(
    ports,
    planPods({
      ...{ service, own, model, resolution: withRollout(resolution, rollout) },
      hasPodMonitors: watches.podMonitors.isSynced(),
    }),
  );
  for (const what of restored) {
    const note = `${what} was edited; what the InferenceService asks for is restored`;
    reportOn(ports.record, INFERENCE_SERVICES, service, {
      ...{ type: "Warning", reason: "ObjectRestored", action: "Restore", note },
    });
  }
  queueUp(ports, key, pods);
  const queuePosition = ports.podsQueue.positionOf(key);
  const { deferral } = rollout ?? {};
  const offload = offloadOf(ports, key, resolution, own.pods);
  const seen = {
    service,
    model,
    resolution,
    // Its status is not of this generation yet: nothing is Ready by what was before.
    deployment: (applied.get("deployments") as Deployment | undefined) ?? deployment,
    pods,
    autoscaler: own.autoscalers[0],
    deferral,
    offload,
    nodes,
    queuePosition,
    obstacle,
    rejections,
  };
  return {
    status: planPodsStatus(seen, isoSeconds(clock.nowMs())),
    obstacle,
    rejections,
    lacking:
      resolution.at === "blocked" && resolution.isFinal
        ? service.spec.replicas
        : (pods.unscheduled?.pods ?? 0),
    ...soonest([
      isBehind ? BEHIND_MS : undefined,
      ...[rollout, later, mounting].map((one) => one?.recheckAfterMs),
    ]),
  };
}

function inputOf({ watches, settings }: PodsPorts, { service, own }: LiveService): PodsInput {
  const { namespace } = service.metadata;
  const { speculativeDecoding, loraAdapters = [] } = service.spec;
  const modelOf = (name: string) => watches.models.get(keyOf({ namespace, name }));
  const draftRef = speculativeDecoding?.draftModelRef;
  return {
    service,
    model: watches.models.get(modelKeyOf(service)),
    draftModel: draftRef === undefined ? undefined : modelOf(draftRef),
    loraModels: loraAdapters.map(({ modelRef }) => modelOf(modelRef)),
    isOnlyService: watches.servicesOfModel.of(modelKeyOf(service)).length === 1,
    settings,
    live: own.deployments[0],
  };
}

/** With what their nodes say, and what only Events say: while a pod waits for its volumes, and after its node has stopped it. */
async function seePods({ watches, client, clock }: PodsPorts, own: readonly Pod[]) {
  const seen = readPods(own);
  const { problem: mounting, recheckAfterMs } = await readMountProblem(client, own, clock.nowMs());
  const known = podNodeProblem(own, watches.nodes.get) ?? seen.problem ?? mounting;
  return { pods: { ...seen, problem: known ?? (await readPodExitProblem(client, own)) }, recheckAfterMs };
}

interface Seen {
  readonly pods: ObservedPods;
  readonly live: LiveService;
}

interface OnNodes {
  readonly resolution: PodsResolved | Blocked;
  readonly nodes?: ObservedNodes;
  readonly recheckAfterMs?: number;
}

/** With placement.mode Auto, and once the Model is read, the nodes that hold it. */
function withNodes(ports: PodsPorts, input: PodsInput, { pods, live }: Seen): OnNodes {
  const { clock, moving, nodeProbes } = ports;
  const { service, model } = input;
  const resolution = resolvePods(input);
  if (service.spec.placement.mode !== "Auto" || resolution.at === "blocked" || model === undefined)
    return { resolution };
  if (isChosenByUser(service.spec)) return { resolution, nodes: { at: "chosenByUser" } };
  const { need: pod } = resolution;
  const judged = judgedFor(ports, model, pod);
  nodeProbes.ask((judged ?? []).flatMap(({ name, fit }) => (fit.at === "unknown" ? [name] : [])));
  const { own, key } = live;
  const [deployment] = own.deployments;
  const before = previousNodeChoice(deployment);
  const kept = before && resolvePods({ ...input, nodes: before });
  const last = deployment && podRevisionOf(deployment.spec.template);
  const departures = moving.from(key).filter(({ by }) => by === "pod");
  const leaving = new Set(departures.map(({ machine }) => machine));
  const { choice, move, givenUp, recheckAfterMs } = settleNodeChoice({
    ...{ before, judged, leaving, move: nodeMoveInProgress(deployment), nowMs: clock.nowMs() },
    hasMoveStrategy:
      !isDeepEqual(resolution.workload.deployment.spec.strategy, SURGE_ONE) &&
      isDeepEqual(deployment?.spec.strategy, SURGE_ONE),
    fresh: nodeChoiceOf(judged ?? [], leaving, new Set(departures.flatMap(({ notTo }) => notTo))),
    isTemplateSame:
      kept?.at === "resolved" &&
      deployment !== undefined &&
      podRevisionOf(kept.workload.deployment.spec.template) === last,
    pods: {
      isServing: pods.ready > 0,
      isWaiting: pods.unscheduled !== undefined,
      isRoomMade: own.pods.some(isMakingRoom),
      on: own.pods.filter(isLive).flatMap(({ spec }) => spec.nodeName ?? []),
      hasOld: own.pods.some((one) => isLive(one) && podRevisionOf(one) !== last),
      isRollingOut: deployment !== undefined && isRollingOut(deployment),
    },
  });
  if (givenUp !== undefined) giveUpMove(ports, live, WHY_GIVEN_UP[givenUp](pods));
  const chosenFor = resolvePods({ ...input, nodes: choice });
  return {
    resolution: move === undefined ? chosenFor : withMove(chosenFor, move),
    nodes: judged === undefined ? { at: "notScored" } : { at: "judged", judged },
    recheckAfterMs,
  };
}

/** Undefined without fitness. */
function judgedFor({ watches, fitness }: PodsPorts, model: Model, pod: PodNeed) {
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

const WHY_GIVEN_UP = {
  NoNode: ({ unscheduled }: ObservedPods) =>
    `the pod finds no other node, and stays: ${unscheduled?.message ?? ""}`,
  NotReady: () => "no other pod was Ready within 30 minutes; the one that serves stays",
  RollingOut: () => "a rollout is in progress; the pod stays on its node",
};

function giveUpMove({ moving, record }: PodsPorts, { key, service }: LiveService, note: string): void {
  moving.giveUp(key);
  const event = { type: "Warning", reason: "MoveBlocked", action: "Move", note } as const;
  reportOn(record, INFERENCE_SERVICES, service, event);
}

/** Pods leave for other nodes: none stops before another is ready, GPUs or not. */
function withMove(resolution: PodsResolved | Blocked, move: NodeMove): PodsResolved | Blocked {
  if (resolution.at === "blocked") return resolution;
  const { metadata, spec } = resolution.workload.deployment;
  const annotations = { ...metadata.annotations, [ANNOTATION_NODE_MOVE]: JSON.stringify(move) };
  const deployment = {
    ...resolution.workload.deployment,
    ...{ metadata: { ...metadata, annotations }, spec: { ...spec, strategy: SURGE_ONE } },
  };
  return { ...resolution, workload: { ...resolution.workload, deployment } };
}

async function rollOut(
  { client, clock, record }: PodsPorts,
  { service, own }: LiveService,
  wanted: Deployment,
): Promise<Rollout> {
  const input = { spec: service.spec, wanted, current: own.deployments[0], pods: own.pods };
  const nowMs = clock.nowMs();
  const asked = podsToProbe(input, nowMs);
  const inFlight = asked.length === 0 ? new Map() : await readPodsInFlight(client, service, asked);
  const rollout = planPodsRollout(input, inFlight, nowMs);
  if (rollout.isForced) {
    const note =
      "old pods are replaced: they did not become idle in time, so their last requests are drained";
    const event = { type: "Warning", reason: "IdleTimeoutExceeded", action: "RollOut", note } as const;
    reportOn(record, INFERENCE_SERVICES, service, event);
  }
  return rollout;
}

function withRollout(
  resolution: PodsResolved | Blocked,
  rollout: Rollout | undefined,
): PodsResolved | Blocked {
  if (resolution.at === "blocked" || rollout === undefined) return resolution;
  const { deployment } = rollout;
  return { ...resolution, workload: { ...resolution.workload, deployment } };
}

/** Undefined if no engine could fall back to the CPU unnoticed. */
function offloadOf(
  { offloads }: PodsPorts,
  key: string,
  resolution: PodsResolved | Blocked,
  pods: readonly Pod[],
): Offload | undefined {
  if (resolution.at === "blocked" || resolution.gpuCount === 0) return undefined;
  const { offloaded } = engineDescription(resolution.runtime)?.pod ?? {};
  return typeof offloaded === "function" ? offloads.look(key, pods, offloaded) : undefined;
}

function queueUp({ podsQueue, onPositions }: PodsPorts, key: string, { unscheduled }: ObservedPods): void {
  const { priority, sinceMs } = unscheduled ?? {};
  const isWaiting = priority !== undefined && sinceMs !== undefined;
  onPositions(podsQueue.set(key, isWaiting ? { key, priority, sinceMs } : undefined));
}

/**
 * Before an autoscaler takes over: a field that its only owner leaves out of an apply falls back to its default, here one
 * replica. A second owner keeps the number.
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
