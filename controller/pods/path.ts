/** The path of services in pods: the controller applies a Deployment and related objects, and Kubernetes runs the pods. */

import { ANNOTATION_NODE_MOVE } from "../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { type Blocked, quantizationOfWeights } from "../../src/capacity/resolve.ts";
import type { ScoreWeights } from "../../src/capacity/score.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import { readReportedNode } from "../../src/cluster/nodes.ts";
import type { Deployment, Pod } from "../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { ApplyOutcome } from "../frame/apply/run.ts";
import { type OwnedObjects, ownedForPods } from "../frame/owned/observe.ts";
import type { PathStep } from "../frame/owned/steps.ts";
import { planTeardown, removals } from "../frame/owned/teardown.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../frame/service/path.ts";
import { type ReportedEvent, reportOn } from "../frame/watches/events.ts";
import { gatedPods, outdatedPods, releasesOf, replacementsOf } from "./gates.ts";
import { readPodsInFlight } from "./in-flight.ts";
import { type MoveInput, type NodeMove, nodeMoveOf, type SettledMove, settleMove } from "./moves.ts";
import { nodeFiguresFor } from "./node-figures.ts";
import { judgeNodes, nodeChoiceOf, nodesCondition, type ObservedNodes, scoreNodes } from "./nodes.ts";
import {
  CONFLICT_RETRY_MS,
  observePods,
  offloadOf,
  podsInputOf,
  reportRestored,
  updateQueue,
} from "./pass.ts";
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
import {
  isOf,
  type PodsRolloutInput,
  planPodsRollout,
  podsToProbe,
  type Rollout,
  renewalOf,
} from "./rollout.ts";
import { planPodsStatus } from "./status.ts";
import { matchesFlavors } from "./workload/flavors/nodes.ts";
import { hasGate, hasSeveralTerms, isChosenByUser } from "./workload/pod.ts";
import { type PodsInput, type PodsResolved, resolvePods } from "./workload/resolve.ts";
import { podRevisionOf } from "./workload/revision.ts";
import { SURGE_ONE } from "./workload/strategy.ts";

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
    keep: ({ pods }) => releasesOf(gatedPods(pods), LEAVES_PODS),
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

/** One pass: observe, plan, act, report. */
async function reconcile(ports: PodsPorts, live: LiveService): Promise<PathResult> {
  const observed = await observe(ports, live);
  const desired = planDesired(live, observed);
  const rollout = rolloutInputOf(live, desired);
  const probed = rollout === undefined ? [] : podsToProbe(rollout, observed.nowMs);
  const inFlight = await readPodsInFlight(ports.client, live.service, probed);
  const plan = planPodsPass(
    live,
    observed,
    desired,
    rollout && planPodsRollout(rollout, inFlight, observed.nowMs),
  );
  const outcome = await act(ports, live, observed, plan);
  return report(ports, live, { observed, plan, outcome });
}

interface Observed {
  readonly input: PodsInput;
  readonly resolution: PodsResolved | Blocked;
  readonly pods: ObservedPods;
  readonly nodes: ObservedNodes | undefined;
  /** Moves of live eviction off nodes. */
  readonly departures: MoveInput["departures"];
  readonly weights: ScoreWeights;
  readonly hasPodMonitors: boolean;
  readonly nowMs: number;
  readonly recheckAfterMs: number | undefined;
}

async function observe(ports: PodsPorts, live: LiveService): Promise<Observed> {
  const { watches, clock, moving, scoreWeights: weights } = ports;
  const input = podsInputOf(ports, live);
  const { pods, recheckAfterMs } = await observePods(ports, live.own);
  const resolution = live.blocked ?? resolvePods(input);
  return {
    input,
    resolution,
    pods,
    nodes: observeNodes(ports, input, resolution),
    departures: moving.from(live.key).filter(({ by }) => by === "pod"),
    weights,
    hasPodMonitors: watches.podMonitors.isSynced(),
    nowMs: clock.nowMs(),
    recheckAfterMs,
  };
}

interface PassPlan extends Desired {
  readonly rollout?: Rollout | undefined;
  readonly steps: readonly PathStep[];
  readonly events: readonly ReportedEvent[];
}

function planPodsPass(
  live: LiveService,
  observed: Observed,
  desired: Desired,
  rollout: Rollout | undefined,
): PassPlan {
  const { service, own, backend } = live;
  const { input, pods, hasPodMonitors } = observed;
  const { resolution, move } = desired;
  const applied =
    resolution.at === "resolved" && rollout !== undefined
      ? withDeployment(resolution, rollout.deployment)
      : resolution;
  const event = (reason: string, action: string, note: string) =>
    ({ type: "Warning", reason, action, note }) as const;
  return {
    ...desired,
    rollout,
    steps: [
      ...planGates(live, observed, desired),
      ...planPods({ service, own, model: input.model, backend, resolution: applied, hasPodMonitors }),
    ],
    events: [
      ...(move?.blocked === undefined
        ? []
        : [event("MoveBlocked", "Move", BLOCKED_NOTES[move.blocked](pods))]),
      ...(rollout?.isForced === true ? [event("IdleTimeoutExceeded", "RollOut", FORCED_NOTE)] : []),
    ],
  };
}

const FORCED_NOTE =
  "old pods are replaced: they did not become idle in time, so their last requests are drained";

async function act(
  ports: PodsPorts,
  { key, service }: LiveService,
  { pods, nodes }: Observed,
  { move, steps, events }: PassPlan,
): Promise<ApplyOutcome> {
  if (nodes?.at === "judged")
    ports.nodeProbes.probe(nodes.judged.flatMap(({ name, fit }) => (fit.at === "unknown" ? [name] : [])));
  if (move?.blocked !== undefined) ports.moving.giveUp(key);
  for (const event of events) reportOn(ports.record, INFERENCE_SERVICES, service, event);
  const outcome = await ports.apply(steps);
  reportRestored(ports, service, outcome.restored);
  updateQueue(ports, key, pods);
  return outcome;
}

interface Passed {
  readonly observed: Observed;
  readonly plan: PassPlan;
  readonly outcome: ApplyOutcome;
}

function report(ports: PodsPorts, live: LiveService, { observed, plan, outcome }: Passed): PathResult {
  const { key, service, own } = live;
  const { input, pods, nodes, nowMs } = observed;
  const { resolution, rollout, move } = plan;
  const { obstacle, rejections, applied, isBehind } = outcome;
  const status = planPodsStatus(
    {
      service,
      model: input.model,
      resolution,
      // The applied Deployment has a new generation, so its old status does not make the service Ready.
      deployment: (applied.get("deployments") as Deployment | undefined) ?? own.deployments[0],
      pods,
      deferral: rollout?.deferral,
      offload: offloadOf(ports, key, resolution, own.pods),
      nodes,
      quota: readQuota(service, own.pods, ports.watches.queueWorkloadsOfOwner.of),
      queuePosition: ports.podsQueue.positionOf(key),
      obstacle,
      rejections,
    },
    isoSeconds(nowMs),
  );
  return {
    status,
    obstacle,
    rejections,
    allocatedFlavor: allocatedFlavorOf(live, pods),
    lacking: resolution.at === "blocked" && resolution.isFinal ? service.spec.replicas : countRefused(pods),
    ...soonest([
      isBehind ? CONFLICT_RETRY_MS : undefined,
      rollout?.recheckAfterMs,
      move?.recheckAfterMs,
      observed.recheckAfterMs,
    ]),
  };
}

function allocatedFlavorOf({ flavor }: LiveService, { flavors = [] }: ObservedPods): string | undefined {
  if (flavor?.on !== "Pods" || flavor.stage.by !== "devices") return undefined;
  return flavor.stage.flavors.findLast(({ name }) => flavors.includes(name))?.name;
}

/** With placement.mode Auto: the nodes, judged for the pods of the service. */
function observeNodes(
  { watches, fitness, scoreWeights: weights }: PodsPorts,
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
  const { affinity } = resolution.workload.deployment.spec.template.spec;
  return { at: "judged", judged, weights, hasSeveralTerms: hasSeveralTerms(affinity) };
}

/** The desired objects, on the nodes that a move of live eviction leaves to them. */
interface Desired {
  readonly resolution: PodsResolved | Blocked;
  /** Undefined if the controller does not choose the nodes. */
  readonly move?: SettledMove;
}

/** Starts, continues and ends moves of live eviction. */
function planDesired({ service, own }: LiveService, observed: Observed): Desired {
  const { resolution, pods, departures, nowMs } = observed;
  const [deployment] = own.deployments;
  if (resolution.at === "blocked" || deployment === undefined || !hasGate(service.spec))
    return { resolution };
  const { template, strategy } = deployment.spec;
  const desired = resolution.workload.deployment.spec;
  const move = settleMove({
    renewedAt: renewalOf(template),
    isTemplateSame: podRevisionOf(desired.template) === podRevisionOf(template),
    departures,
    move: nodeMoveOf(deployment),
    nowMs,
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
  return { resolution: move.move === undefined ? resolution : onMove(resolution, move.move), move };
}

/** Chooses the nodes of the pods that wait for it. Without nodes to choose from, the pods start at once, without a preference. */
function planGates(
  { own }: LiveService,
  observed: Observed,
  { resolution, move }: Desired,
): readonly PathStep[] {
  const { nodes, departures, weights } = observed;
  const gated = gatedPods(own.pods);
  // Most passes have no such pod, and scores of all nodes take time.
  if (gated.length === 0 && !own.pods.some(isUnscheduled)) return [];
  const judged = nodes?.at === "judged" ? nodes.judged : [];
  // A move that has just been given up leaves no node.
  const leaving =
    move?.blocked === undefined ? departures.flatMap(({ machine, notTo }) => [machine, ...notTo]) : [];
  const choice = nodeChoiceOf(judged, new Set([...leaving, ...(move?.move?.avoid ?? [])]), weights);
  const reason =
    nodes === undefined
      ? `no node is preferred: ${resolution.at === "blocked" ? resolution.message : "placement.mode is Manual"}`
      : (nodesCondition(nodes).message ?? "");
  const score = scoreNodes(judged, weights)[0]?.score;
  const outdated = outdatedPods(own.pods, judged, choice);
  return [...releasesOf(gated, { choice, reason, score }), ...replacementsOf(outdated)];
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

/** Undefined if the service cannot be resolved: existing pods stay. */
function rolloutInputOf(
  { service, own }: LiveService,
  { resolution, move }: Desired,
): PodsRolloutInput | undefined {
  if (resolution.at === "blocked") return undefined;
  return {
    spec: service.spec,
    desired: resolution.workload.deployment,
    current: own.deployments[0],
    pods: own.pods,
    renewed: move && { at: move.renewedAt },
  };
}

function withDeployment(resolution: PodsResolved, deployment: Deployment): PodsResolved {
  return { ...resolution, workload: { ...resolution.workload, deployment } };
}
