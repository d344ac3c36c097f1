/** Services as pods: the controller applies a Deployment and what surrounds it, Kubernetes runs them. */
import { MANAGER_AUTOSCALING, MANAGER_CONTROLLER } from "../../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import { runtimeEntry } from "../../../src/engines/registry.ts";
import { needOf } from "../../../src/fitness/replica-fit.ts";
import { isoSeconds } from "../../../src/iso-seconds.ts";
import { DEPLOYMENTS } from "../../../src/kube/kinds.ts";
import type { Deployment, Pod } from "../../../src/kube/workload-objects.ts";
import type { NodeChoice } from "../../../src/linux/contract.ts";
import { type PodsInput, type PodsResolved, resolvePods } from "../../../src/linux/resolve.ts";
import { reportOn } from "../../cache/events.ts";
import { readReportedNode } from "../../cache/nodes.ts";
import { applySteps } from "../../service/apply/apply.ts";
import { ApiCallFailed } from "../../service/failure.ts";
import { NO_BELONGINGS } from "../../service/observe.ts";
import {
  type LiveService,
  modelKeyOf,
  type PathResult,
  type ServicePath,
  soonest,
} from "../../service/path.ts";
import { planTeardown } from "../../service/teardown.ts";
import { askInFlight } from "./in-flight.ts";
import { choiceOf, chosenBefore, isChosenByUser, judgeNodes, type NodesSeen, settle } from "./nodes.ts";
import type { Offload } from "./offload.ts";
import { planPods } from "./plan.ts";
import { type PodsSeen, readPods } from "./pods.ts";
import type { PodsPorts } from "./ports.ts";
import { planRollout, podsToAsk, type Rollout, revisionOf } from "./rollout.ts";
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
    leave: ({ deployments, autoscalers, disruptionBudgets, networkPolicies, podMonitors }) =>
      planTeardown(
        { ...NO_BELONGINGS, deployments, autoscalers, disruptionBudgets, networkPolicies, podMonitors },
        "the service runs on hosts now",
      ),
  };
}

async function reconcile(ports: PodsPorts, live: LiveService): Promise<PathResult> {
  const { key, service, own } = live;
  const { caches, clock, linux } = ports;
  const { namespace } = service.metadata;
  const { speculativeDecoding, loraAdapters = [] } = service.spec;
  const modelOf = (name: string) => caches.models.get(keyOf({ namespace, name }));
  const draftRef = speculativeDecoding?.draftModelRef;
  const model = caches.models.get(modelKeyOf(service));
  const [deployment] = own.deployments;
  const pods = readPods(own.pods);
  const returned = giveUpMove(ports, live, pods);
  const { resolution, nodes } = withNodes(
    ports,
    {
      service,
      model,
      draftModel: draftRef === undefined ? undefined : modelOf(draftRef),
      loraModels: loraAdapters.map(({ modelRef }) => modelOf(modelRef)),
      settings: linux,
    },
    { deployment, isWaiting: pods.unscheduled !== undefined, restored: returned },
  );
  if (resolution.at === "resolved") await handOverReplicas(ports, resolution, deployment);
  const rollout =
    resolution.at === "resolved" ? await rollOut(ports, live, resolution.workload.deployment) : undefined;
  const { obstacle, rejections, restored, isBehind } = await applySteps(
    ports,
    planPods({
      ...{ service, own, model, resolution: withRollout(resolution, rollout) },
      hasPodMonitors: caches.podMonitors.isSynced(),
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
  const input = {
    service,
    model,
    resolution,
    deployment,
    pods,
    deferral,
    offload,
    nodes,
    queuePosition,
    obstacle,
    rejections,
  };
  return {
    status: planPodsStatus(input, isoSeconds(clock.nowMs())),
    obstacle,
    rejections,
    lacking:
      resolution.at === "blocked" && resolution.isFinal
        ? service.spec.replicas
        : (pods.unscheduled?.pods ?? 0),
    ...soonest([isBehind ? BEHIND_MS : undefined, rollout?.recheckAfterMs]),
  };
}

/** Where pods wait for a node, one more to avoid does not help: the move ends, and those that serve stay. */
function giveUpMove(
  { moving, record }: PodsPorts,
  { key, service, own }: LiveService,
  { unscheduled }: PodsSeen,
): NodeChoice | undefined {
  const isRoomMade = own.pods.some(({ status }) => status?.nominatedNodeName !== undefined);
  if (unscheduled === undefined || isRoomMade || moving.from(key).size === 0) return undefined;
  const note = `pods find no other node, and stay: ${unscheduled.message}`;
  const event = { type: "Warning", reason: "MoveBlocked", action: "Move", note } as const;
  reportOn(record, INFERENCE_SERVICES, service, event);
  return moving.giveUp(key);
}

interface Now {
  readonly deployment: Deployment | undefined;
  readonly isWaiting: boolean;
  /** Of a move that was given up in this pass. */
  readonly restored: NodeChoice | undefined;
}

/** With placement.mode Auto, and once the Model is read, the nodes that hold it. */
function withNodes(
  { caches, matchModel, moving, nodeProbes }: PodsPorts,
  input: PodsInput,
  { deployment, isWaiting, restored }: Now,
): { readonly resolution: PodsResolved | Blocked; readonly nodes?: NodesSeen } {
  const { service, model } = input;
  const resolution = resolvePods(input);
  if (service.spec.placement.mode !== "Auto" || resolution.at === "blocked" || model === undefined)
    return { resolution };
  if (isChosenByUser(service.spec)) return { resolution, nodes: { at: "chosenByUser" } };
  const { need: pod } = resolution;
  const need = needOf({
    ...{ source: model.spec.source, quantization: model.status?.gguf?.quantization, match: matchModel },
    ...{ settings: pod.settings, claimBytes: pod.claimBytes },
  });
  const nodes = caches.nodes.list().map((node) => readReportedNode(node, caches.nodeReports));
  const judged = judgeNodes(need, pod, nodes);
  nodeProbes.ask(judged.flatMap(({ name, fit }) => (fit.at === "unknown" ? [name] : [])));
  const before = chosenBefore(deployment);
  const kept = before && resolvePods({ ...input, nodes: before });
  const isTemplateSame =
    kept?.at === "resolved" &&
    deployment !== undefined &&
    revisionOf(kept.workload.deployment.spec.template) === revisionOf(deployment.spec.template);
  const key = keyOf(service.metadata);
  const leaving = new Set(moving.from(key).keys());
  if (leaving.size > 0 && before !== undefined) moving.keep(key, before);
  const fresh = choiceOf(judged, leaving, moving.stayed(key));
  const isMoving = leaving.size > 0;
  const chosen = restored ?? settle({ before, fresh, isTemplateSame, isWaiting, isMoving });
  const chosenFor = resolvePods({ ...input, nodes: chosen });
  return {
    resolution: isMoving ? withStrategy(chosenFor, ONE_MORE) : chosenFor,
    nodes: { at: "judged", judged },
  };
}

/** Pods leave for other nodes: none stops before another is ready, GPUs or not. */
const ONE_MORE = { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } } as const;

function withStrategy(
  resolution: PodsResolved | Blocked,
  strategy: Deployment["spec"]["strategy"] & {},
): PodsResolved | Blocked {
  if (resolution.at === "blocked") return resolution;
  const { deployment } = resolution.workload;
  const changed = { ...deployment, spec: { ...deployment.spec, strategy } };
  return { ...resolution, workload: { ...resolution.workload, deployment: changed } };
}

async function rollOut(
  { client, clock, record }: PodsPorts,
  { service, own }: LiveService,
  wanted: Deployment,
): Promise<Rollout> {
  const input = { spec: service.spec, wanted, current: own.deployments[0], pods: own.pods };
  const nowMs = clock.nowMs();
  const asked = podsToAsk(input, nowMs);
  const inFlight = asked.length === 0 ? new Map() : await askInFlight(client, service, asked);
  const rollout = planRollout(input, inFlight, nowMs);
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

/** Undefined where no engine could fall back to the CPU unnoticed. */
function offloadOf(
  { offloads }: PodsPorts,
  key: string,
  resolution: PodsResolved | Blocked,
  pods: readonly Pod[],
): Offload | undefined {
  if (resolution.at === "blocked" || resolution.gpuCount === 0) return undefined;
  const { offloaded } = runtimeEntry(resolution.runtime)?.pod ?? {};
  return typeof offloaded === "function" ? offloads.look(key, pods, offloaded) : undefined;
}

function queueUp({ podsQueue, onPositions }: PodsPorts, key: string, { unscheduled }: PodsSeen): void {
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
