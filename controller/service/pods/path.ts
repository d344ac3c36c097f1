/** The path of services in pods: the controller applies a Deployment and related objects, and Kubernetes runs the pods. */

import { ANNOTATION_NODE_MOVE } from "../../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { type Blocked, quantizationOfWeights } from "../../../src/capacity/resolve.ts";
import type { Deployment, Pod } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import { benchmarksIn } from "../../watches/benchmarks.ts";
import { reportOn } from "../../watches/events.ts";
import { readReportedNode } from "../../watches/nodes.ts";
import { matchesFlavors } from "../../workload/flavors/nodes.ts";
import { hasGate, hasSeveralTerms, isChosenByUser } from "../../workload/pod.ts";
import { type PodsInput, type PodsResolved, resolvePods } from "../../workload/resolve.ts";
import { podRevisionOf } from "../../workload/revision.ts";
import { SURGE_ONE } from "../../workload/strategy.ts";
import { applyServiceSteps } from "../apply/apply.ts";
import type { Rejection } from "../apply/rejection.ts";
import { type OwnedObjects, ownedForPods } from "../owned/observe.ts";
import { planTeardown, removals } from "../owned/teardown.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../path.ts";
import { gatedPods, outdatedPods, releasePods, replacePods } from "./gates.ts";
import { readPodsInFlight } from "./in-flight.ts";
import { podsInputOf } from "./input.ts";
import { type NodeMove, nodeMoveOf, type SettledMove, settleMove } from "./moves.ts";
import { nodeFiguresFor } from "./node-figures.ts";
import { judgeNodes, nodeChoiceOf, nodesCondition, type ObservedNodes, scoreNodes } from "./nodes.ts";
import { CONFLICT_RETRY_MS, observePods, offloadOf, reportRestored, updateQueue } from "./pass.ts";
import { planPods } from "./plan.ts";
import {
  countRefused,
  isInGroup,
  isLive,
  isMakingRoom,
  isUnscheduled,
  type ObservedPods,
  readPods,
} from "./pods.ts";
import type { PodsPorts } from "./ports.ts";
import { readQuota } from "./quota.ts";
import { isOf, planPodsRollout, podsToProbe, type Rollout, renewalOf } from "./rollout.ts";
import { planPodsStatus } from "./status.ts";

const LEAVES_PODS = {
  choice: { avoid: [], prefer: [] },
  reason: "the service moves to hosts",
  score: undefined,
};

export function createPodsPath(ports: PodsPorts): ServicePath {
  return {
    on: "Pods",
    names: "pods",
    takes: ({ spec }) => spec.group === undefined,
    prepare: ({ key, own }) => {
      updateQueue(ports, key, readPods(ownPods(own)));
    },
    reconcile: (live) => reconcile(ports, { ...live, own: { ...live.own, pods: ownPods(live.own) } }),
    // A pod that is replaced meanwhile serves until hosts do.
    keep: ({ own }) => releasePods(ports, gatedPods(own.pods), LEAVES_PODS),
    release: (key) => {
      ports.offloads.forget(key);
      ports.onPositions(ports.podsQueue.set(key, undefined));
    },
    serving: (own) => readPods(ownPods(own)).ready,
    leave: (own, { on }) =>
      on === "Pods"
        ? removals("deployments", own.deployments, "the service runs in groups of pods now")
        : planTeardown(ownedForPods(own), "the service runs on hosts now"),
  };
}

/** Without pods of groups. */
function ownPods({ pods }: OwnedObjects): readonly Pod[] {
  return pods.filter((pod) => !isInGroup(pod));
}

async function reconcile(ports: PodsPorts, live: LiveService): Promise<PathResult> {
  const { key, service, own } = live;
  const { watches, clock } = ports;
  const input = podsInputOf(ports, live);
  const { model } = input;
  const [deployment] = own.deployments;
  const { pods, recheckAfterMs: mountsAfterMs } = await observePods(ports, own);
  const resolved = live.blocked ?? resolvePods(input);
  const nodes = observeNodes(ports, input, resolved);
  const { resolution, move } = withMove(ports, resolved, { pods, live });
  // First, because the pods wait, and a later step may fail.
  const ungated = await choosePodNodes(ports, live, { nodes, resolution, move });
  const rollout =
    resolution.at === "resolved"
      ? await rolloutOf(ports, live, resolution.workload.deployment, move)
      : undefined;
  const { obstacle, restored, applied, isBehind, ...run } = await applyServiceSteps(
    ports,
    planPods({
      service,
      own,
      model,
      backend: live.backend,
      resolution:
        resolution.at === "resolved" && rollout !== undefined
          ? withDeployment(resolution, rollout.deployment)
          : resolution,
      hasPodMonitors: watches.podMonitors.isSynced(),
    }),
  );
  reportRestored(ports, service, restored);
  const rejections = [...ungated, ...run.rejections];
  updateQueue(ports, key, pods);
  const observed = {
    service,
    model,
    resolution,
    // The applied Deployment has a new generation, so its old status does not make the service Ready.
    deployment: (applied.get("deployments") as Deployment | undefined) ?? deployment,
    pods,
    deferral: rollout?.deferral,
    offload: offloadOf(ports, key, resolution, own.pods),
    nodes,
    quota: readQuota(service, own.pods, watches.queueWorkloadsOfOwner.of),
    queuePosition: ports.podsQueue.positionOf(key),
    obstacle,
    rejections,
  };
  return {
    status: planPodsStatus(observed, isoSeconds(clock.nowMs())),
    obstacle,
    rejections,
    allocatedFlavor: allocatedFlavorOf(live, pods),
    lacking: resolution.at === "blocked" && resolution.isFinal ? service.spec.replicas : countRefused(pods),
    ...soonest([
      isBehind ? CONFLICT_RETRY_MS : undefined,
      rollout?.recheckAfterMs,
      move?.recheckAfterMs,
      mountsAfterMs,
    ]),
  };
}

function allocatedFlavorOf({ flavor }: LiveService, { flavors = [] }: ObservedPods): string | undefined {
  if (flavor?.on !== "Pods" || flavor.stage.by !== "devices") return undefined;
  return flavor.stage.flavors.findLast(({ name }) => flavors.includes(name))?.name;
}

/** With placement.mode Auto: the nodes, judged for the pods of the service. */
function observeNodes(
  { watches, fitness, nodeProbes, scoreWeights: weights }: PodsPorts,
  { service, model, flavors }: PodsInput,
  resolution: PodsResolved | Blocked,
): ObservedNodes | undefined {
  const { spec } = service;
  if (spec.placement.mode !== "Auto" || resolution.at === "blocked" || model === undefined) return undefined;
  if (isChosenByUser(spec)) return { at: "chosenByUser" };
  if (fitness === undefined) return { at: "notScored" };
  const { need } = resolution;
  const { settings, claimBytes } = need;
  const { source } = model.spec;
  const quantization = quantizationOfWeights(model);
  const measured = benchmarksIn(watches.benchmarks).results;
  const scorer = fitness.forReplica({ source, quantization, settings, claimBytes }, measured);
  const nodes = watches.nodes
    .list()
    .filter((node) => matchesFlavors(node, flavors))
    .map((node) => readReportedNode(fitness, node, watches.nodeReports));
  const judged = judgeNodes(scorer, need, nodes, nodeFiguresFor(watches, { service, model, resolution }));
  nodeProbes.probe(judged.flatMap(({ name, fit }) => (fit.at === "unknown" ? [name] : [])));
  const { affinity } = resolution.workload.deployment.spec.template.spec;
  return { at: "judged", judged, weights, hasSeveralTerms: hasSeveralTerms(affinity) };
}

interface Moved {
  readonly resolution: PodsResolved | Blocked;
  /** Undefined if the controller does not choose the nodes. */
  readonly move?: SettledMove;
}

/** Starts, continues and ends moves of live eviction. */
function withMove(
  ports: PodsPorts,
  resolution: PodsResolved | Blocked,
  { pods, live }: { readonly pods: ObservedPods; readonly live: LiveService },
): Moved {
  const { own, key } = live;
  const [deployment] = own.deployments;
  if (resolution.at === "blocked" || deployment === undefined || !hasGate(live.service.spec))
    return { resolution };
  const { template, strategy } = deployment.spec;
  const desired = resolution.workload.deployment.spec;
  const move = settleMove({
    renewedAt: renewalOf(template),
    isTemplateSame: podRevisionOf(desired.template) === podRevisionOf(template),
    departures: ports.moving.from(key).filter(({ by }) => by === "pod"),
    move: nodeMoveOf(deployment),
    nowMs: ports.clock.nowMs(),
    hasMoveStrategy: !isDeepEqual(desired.strategy, SURGE_ONE) && isDeepEqual(strategy, SURGE_ONE),
    pods: {
      isServing: pods.ready > 0,
      isWaiting: countRefused(pods) > 0,
      isRoomMade: own.pods.some(isMakingRoom),
      on: own.pods.filter(isLive).flatMap(({ spec }) => spec.nodeName ?? []),
      hasOld: own.pods.some((one) => isLive(one) && !isOf(one, template)),
      isRollingOut: isRollingOut(deployment),
    },
  });
  if (move.blocked !== undefined) cancelMove(ports, live, BLOCKED_NOTES[move.blocked](pods));
  return { resolution: move.move === undefined ? resolution : onMove(resolution, move.move), move };
}

/** Chooses the nodes of the pods that wait for it. Without nodes to choose from, the pods start at once, without a preference. */
async function choosePodNodes(
  ports: PodsPorts,
  { key, own }: LiveService,
  { nodes, resolution, move }: Moved & { readonly nodes: ObservedNodes | undefined },
): Promise<readonly Rejection[]> {
  const gated = gatedPods(own.pods);
  // Most passes have no such pod, and scores of all nodes take time.
  if (gated.length === 0 && !own.pods.some(isUnscheduled)) return [];
  const judged = nodes?.at === "judged" ? nodes.judged : [];
  const departures = ports.moving.from(key).filter(({ by }) => by === "pod");
  const leaving = departures.flatMap(({ machine, notTo }) => [machine, ...notTo]);
  const { scoreWeights } = ports;
  const choice = nodeChoiceOf(judged, new Set([...leaving, ...(move?.move?.avoid ?? [])]), scoreWeights);
  const outdated = outdatedPods(own.pods, judged, choice);
  if (gated.length + outdated.length === 0) return [];
  const reason =
    nodes === undefined
      ? `no node is preferred: ${resolution.at === "blocked" ? resolution.message : "placement.mode is Manual"}`
      : (nodesCondition(nodes).message ?? "");
  const score = scoreNodes(judged, scoreWeights)[0]?.score;
  const released = await releasePods(ports, gated, { choice, reason, score });
  return [...released, ...(await replacePods(ports, outdated))];
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
function onMove(resolution: PodsResolved, move: NodeMove): PodsResolved {
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
  move: SettledMove | undefined,
): Promise<Rollout> {
  const renewed = move && { at: move.renewedAt };
  const input = { spec: service.spec, desired, current: own.deployments[0], pods: own.pods, renewed };
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
