/** What live eviction sees: how well each replica's machine fits its model now, and which other machines would take it. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { fitOfService } from "../../src/capacity/fit/service-fit.ts";
import type {
  Fitness,
  MoveCandidate,
  Observation,
  ReplicaFit,
  ReplicaScorer,
} from "../../src/capacity/fitness.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import {
  type Deployment,
  type HorizontalPodAutoscaler,
  hasPodEnded,
  type Node,
  type Pod,
} from "../../src/kube/workload-objects.ts";
import { isServingReplica } from "../service/hosts/rollout/slots.ts";
import { isChosenByUser } from "../service/pods/nodes.ts";
import { isReadyPod as isPodReady, requestsOf } from "../service/pods/pods.ts";
import { readReportedNode } from "../watches/nodes.ts";
import type { Watches } from "../watches/watches.ts";
import { type PodNeed, podNeed } from "../workload/resolve.ts";

export interface ObservedWorkload extends Observation {
  readonly by: "replica" | "pod";
  readonly name: string;
}

type Sees = Pick<
  Watches,
  | "services"
  | "models"
  | "hosts"
  | "nodes"
  | "nodeReports"
  | "replicas"
  | "ofService"
  | "pods"
  | "podsOfService"
>;

/** Replicas on hosts, and pods of services with placement.mode Auto. No score: it does not serve, or its fitness is not known. */
export function observeReplicas(watches: Sees, fitness: Fitness): readonly ObservedWorkload[] {
  return watches.services.list().flatMap((service) => {
    const model = modelOf(watches, service);
    const { evictionProtection, disruption, suspend } = service.spec;
    if (model === undefined || suspend || evictionProtection === true || disruption?.protectAlways === true)
      return [];
    return [...onHosts(watches, service, model, fitness), ...onNodes(watches, service, model, fitness)];
  });
}

function onHosts(watches: Sees, service: InferenceService, model: Model, fitness: Fitness) {
  const key = keyOf(service.metadata);
  return watches.ofService.replicas.of(key).flatMap((replica): ObservedWorkload[] => {
    const { metadata, spec } = replica;
    const host = watches.hosts.get(spec.template.hostName);
    if (host === undefined || isLeaving(replica)) return [];
    const scorer = hostScorer(model, spec.template.engine, fitness, spec.memory.claimBytes);
    const score = isServingReplica(replica) ? scoreOf(scorer.fitOn({ host })) : undefined;
    return [{ ...identityOf(metadata), by: "replica", service: key, on: host.metadata.name, score }];
  });
}

function onNodes(watches: Sees, service: InferenceService, model: Model, fitness: Fitness) {
  if (service.spec.placement.mode !== "Auto" || isChosenByUser(service.spec)) return [];
  const key = keyOf(service.metadata);
  const pods = watches.podsOfService.of(key).filter((pod) => !isLeaving(pod));
  const needs = pods.length === 0 ? undefined : needInPods(watches, service, model, fitness);
  if (needs === undefined) return [];
  return pods.flatMap((pod): ObservedWorkload[] => {
    const node = watches.nodes.get(pod.spec.nodeName ?? "");
    if (node === undefined) return [];
    const score = isPodReady(pod) ? scoreOn(watches, node, needs, fitness) : undefined;
    return [{ ...identityOf(pod.metadata), by: "pod", service: key, on: node.metadata.name, score }];
  });
}

function identityOf({ uid = "", name, creationTimestamp = "" }: KubeObject["metadata"]) {
  return { replica: uid, name, sinceMs: Date.parse(creationTimestamp) || 0 };
}

/** A move replaces all pods of a Deployment: with more than one, those that serve on good nodes would leave them too. */
export function mayHaveMultiplePods(
  deployments: readonly Deployment[],
  autoscalers: readonly HorizontalPodAutoscaler[],
): boolean {
  return (
    deployments.some(({ spec }) => (spec.replicas ?? 1) > 1) ||
    autoscalers.some(({ spec }) => spec.maxReplicas > 1)
  );
}

/** Machines with their scores, and whether they would take it now. */
export function moveCandidatesFor(
  watches: Sees,
  { by, service: key, name: own }: ObservedWorkload,
  fitness: Fitness,
  nowMs: number,
): readonly MoveCandidate[] {
  const service = watches.services.get(key);
  const model = service && modelOf(watches, service);
  if (service === undefined || model === undefined) return [];
  if (by === "pod") {
    const needs = needInPods(watches, service, model, fitness);
    const pod = watches.pods.get(keyOf({ namespace: service.metadata.namespace, name: own }));
    return needs === undefined || pod === undefined ? [] : nodeCandidates(watches, pod, needs, fitness);
  }
  try {
    const lists = { hosts: watches.hosts.list(), replicas: watches.replicas.list() };
    const named = namedModels(watches, service);
    const fit = fitOfService(
      { service, model, ...named, ...lists, services: watches.services.list() },
      nowMs,
    );
    return fit.report.hosts.flatMap(({ host: name, fits, claimBytes }): MoveCandidate[] => {
      const host = watches.hosts.get(name);
      if (host === undefined) return [];
      const scorer = hostScorer(model, fit.template.engine, fitness, claimBytes);
      const score = scoreOf(scorer.fitOn({ host }));
      return score === undefined ? [] : [{ name, score, isOpen: fits === true }];
    });
  } catch (error) {
    if (error instanceof MetalbridgeError) return [];
    throw error;
  }
}

/** Room beside the pods of services; what else runs there only the scheduler knows, and a pod that finds none returns. */
function nodeCandidates(watches: Sees, pod: Pod, needs: Needs, fitness: Fitness): readonly MoveCandidate[] {
  const beside = new Map(watches.nodes.list().map(({ metadata }) => [metadata.name, [] as Pod[]]));
  for (const one of watches.pods.list())
    if (!hasPodEnded(one)) beside.get(one.spec.nodeName ?? "")?.push(one);
  return watches.nodes.list().flatMap((node) => {
    const { name } = node.metadata;
    const score = scoreOn(watches, node, needs, fitness);
    const isOpen = nodeAdmitsPod(node, pod) && nodeHasRoom(node, beside.get(name) ?? [], pod);
    return score === undefined ? [] : [{ name, score, isOpen }];
  });
}

/** As the scheduler sees it. */
export function nodeAdmitsPod({ spec, status }: Node, pod: Pod): boolean {
  const isNodeReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  const taints = (spec?.taints ?? []).filter(({ effect }) => effect !== "PreferNoSchedule");
  const { tolerations = [] } = pod.spec;
  return (
    spec?.unschedulable !== true &&
    isNodeReady === true &&
    taints.every((taint) => tolerations.some((one) => tolerates(one, taint)))
  );
}

type Toleration = NonNullable<Pod["spec"]["tolerations"]>[number];

/** Without an effect, all of them; Exists without a key, all taints. */
function tolerates({ key = "", operator = "Equal", value = "", effect = "" }: Toleration, taint: Toleration) {
  if (effect !== "" && effect !== taint.effect) return false;
  if (operator === "Exists") return key === "" || key === taint.key;
  return operator === "Equal" && key === taint.key && value === (taint.value ?? "");
}

/** A device that the node does not name is one that it lacks. */
export function nodeHasRoom({ status }: Node, beside: readonly Pod[], pod: Pod): boolean {
  const taken = sumsOf(beside);
  return [...sumsOf([pod])].every(([resource, amount]) => {
    const offered = status?.allocatable?.[resource];
    const most = offered === undefined ? undefined : parseQuantity(offered);
    if (most === undefined) return !resource.includes("/");
    return amount <= most - (taken.get(resource) ?? 0);
  });
}

function sumsOf(pods: readonly Pod[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const [resource, quantity] of pods.flatMap(requestsOf))
    sums.set(resource, (sums.get(resource) ?? 0) + (parseQuantity(quantity) ?? 0));
  return sums;
}

interface Needs {
  readonly pod: PodNeed;
  readonly scorer: ReplicaScorer;
}

function needInPods(
  watches: Sees,
  service: InferenceService,
  model: Model,
  fitness: Fitness,
): Needs | undefined {
  try {
    const pod = podNeed({ service, model, ...inPods(namedModels(watches, service)) });
    const { source, quantization } = aboutModel(model);
    const { settings, claimBytes } = pod;
    return { pod, scorer: fitness.forReplica({ source, quantization, settings, claimBytes }) };
  } catch (error) {
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

function scoreOn({ nodeReports }: Sees, node: Node, { pod, scorer }: Needs, fitness: Fitness) {
  return scoreOf(scorer.fitOn({ node: readReportedNode(fitness, node, nodeReports), pod }));
}

function hostScorer(
  model: Model,
  settings: Parameters<Fitness["forReplica"]>[0]["settings"],
  fitness: Fitness,
  claimBytes: number | undefined,
): ReplicaScorer {
  const claimed = claimBytes === undefined || claimBytes === 0 ? undefined : () => claimBytes;
  return fitness.forReplica({ ...aboutModel(model), settings, claimBytes: claimed });
}

/** Undefined: not known, which is no fall. */
function scoreOf(fit: ReplicaFit): number | undefined {
  if (fit.at === "tooSmall" || fit.at === "noGpus") return 0;
  return fit.at === "fits" ? fit.scored?.score : undefined;
}

function aboutModel({ spec, status }: Model) {
  return { source: spec.source, quantization: status?.gguf?.quantization };
}

function modelOf({ models }: Sees, { metadata, spec }: InferenceService): Model | undefined {
  return models.get(keyOf({ namespace: metadata.namespace, name: spec.modelRef }));
}

/** As pods name them. */
function inPods({ draftModel: draft, loraModels }: ReturnType<typeof namedModels>) {
  const adapters = loraModels.filter((model) => model !== undefined);
  return { draft, adapters };
}

/** Models beside its own that a replica holds in memory. */
function namedModels({ models }: Sees, { metadata: { namespace }, spec }: InferenceService) {
  const { speculativeDecoding, loraAdapters = [] } = spec;
  const of = (name: string) => models.get(keyOf({ namespace, name }));
  const draft = speculativeDecoding?.draftModelRef;
  return {
    draftModel: draft === undefined ? undefined : of(draft),
    loraModels: loraAdapters.map(({ modelRef }) => of(modelRef)),
  };
}

function isLeaving({ metadata }: KubeObject): boolean {
  return metadata.deletionTimestamp !== undefined;
}
