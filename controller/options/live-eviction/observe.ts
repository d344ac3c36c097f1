/** Observes for live eviction how well the machine of each replica fits its model, and which other machines could run it. Pure. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { BackendRevision } from "../../../src/capacity/backend.ts";
import { fitOfService } from "../../../src/capacity/fit/service-fit.ts";
import type {
  Fitness,
  MoveCandidate,
  Observation,
  ReplicaFit,
  ReplicaScorer,
} from "../../../src/capacity/fitness.ts";
import { onLastFlavor } from "../../../src/capacity/flavors/apply.ts";
import { flavorsOf, platformOfFlavor } from "../../../src/capacity/flavors/narrow.ts";
import { quantizationOfWeights } from "../../../src/capacity/resolve.ts";
import { readReportedNode } from "../../../src/cluster/nodes.ts";
import type { KubeObject } from "../../../src/kube/types.ts";
import { type Deployment, hasPodEnded, type Node, type Pod } from "../../../src/kube/workload-objects.ts";
import { backendOf } from "../../frame/service/backend.ts";
import { modelKeyOf, namedModels } from "../../frame/service/path.ts";
import type { Watches } from "../../frame/watches/watches.ts";
import { isServingReplica } from "../../hosts/rollout/slots.ts";
import { usableClasses } from "../../pods/claims.ts";
import { isReadyPod as isPodReady, requestsOf } from "../../pods/pods.ts";
import type { PodFlavors } from "../../pods/workload/contract.ts";
import { type FlavoredInput, withStage } from "../../pods/workload/flavors/build.ts";
import { matchesFlavors } from "../../pods/workload/flavors/nodes.ts";
import { stageContext, stageOf } from "../../pods/workload/flavors/stage.ts";
import { nodeAdmits } from "../../pods/workload/node-admission.ts";
import { hasGate } from "../../pods/workload/pod.ts";
import { type PodNeed, podNeed, withPodBackend } from "../../pods/workload/resolve.ts";

export interface ObservedWorkload extends Observation {
  readonly by: "replica" | "pod";
  readonly name: string;
}

type ObservedWatches = Pick<
  Watches,
  | "deviceClasses"
  | "services"
  | "models"
  | "hosts"
  | "nodes"
  | "nodeReports"
  | "replicas"
  | "ofService"
  | "pods"
  | "podsOfService"
  | "backendRuntimes"
  | "backendsProblem"
>;

/** Replicas on hosts, and pods of services with placement.mode Auto. Without a score if they do not serve, or their fitness is unknown. */
export function observeReplicas(watches: ObservedWatches, fitness: Fitness): readonly ObservedWorkload[] {
  return watches.services.list().flatMap((service) => {
    const model = watches.models.get(modelKeyOf(service));
    const { evictionProtection, disruption, suspend } = service.spec;
    if (model === undefined || suspend || evictionProtection === true || disruption?.protectAlways === true)
      return [];
    return [...onHosts(watches, service, model, fitness), ...onNodes(watches, service, model, fitness)];
  });
}

function onHosts(watches: ObservedWatches, service: InferenceService, model: Model, fitness: Fitness) {
  const key = keyOf(service.metadata);
  return watches.ofService.replicas.of(key).flatMap((replica): ObservedWorkload[] => {
    const { metadata, spec } = replica;
    const host = watches.hosts.get(spec.template.hostName);
    if (host === undefined || isBeingDeleted(replica)) return [];
    const scorer = hostScorer(model, spec.template.engine, fitness, spec.memory.claimBytes);
    const score = isServingReplica(replica) ? scoreOf(scorer.fitOn({ host })) : undefined;
    return [{ ...identityOf(metadata), by: "replica", service: key, on: host.metadata.name, score }];
  });
}

function onNodes(watches: ObservedWatches, service: InferenceService, model: Model, fitness: Fitness) {
  if (!hasGate(service.spec)) return [];
  const key = keyOf(service.metadata);
  const pods = watches.podsOfService.of(key).filter((pod) => !isBeingDeleted(pod));
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

/**
 * The reason why no pod of these Deployments may move. A move replaces all pods of a Deployment, so with several pods it would also
 * move those on good nodes.
 */
export function moveRefusal(
  deployments: readonly Deployment[],
  service: InferenceService | undefined,
): string | undefined {
  const hasSeveral =
    deployments.some(({ spec }) => (spec.replicas ?? 1) > 1) ||
    (service?.spec.autoscaling?.maxReplicas ?? 1) > 1;
  return hasSeveral
    ? "live eviction moves only services with a single pod, and this one has, or may scale to, more"
    : undefined;
}

/** Machines with their scores, and whether they could run the replica now. */
export function moveCandidatesFor(
  watches: ObservedWatches,
  { by, service: key, name: own }: ObservedWorkload,
  fitness: Fitness,
  nowMs: number,
): readonly MoveCandidate[] {
  const service = watches.services.get(key);
  const model = service && watches.models.get(modelKeyOf(service));
  if (service === undefined || model === undefined) return [];
  if (by === "pod") {
    const needs = needInPods(watches, service, model, fitness);
    const pod = watches.pods.get(keyOf({ namespace: service.metadata.namespace, name: own }));
    return needs === undefined || pod === undefined ? [] : nodeCandidates(watches, pod, needs, fitness);
  }
  try {
    const lists = { hosts: watches.hosts.list(), replicas: watches.replicas.list() };
    const named = namedModels(watches.models, service);
    const fit = fitOfService(
      {
        service: onLastFlavor(service, model),
        ...named,
        model,
        backend: backendOf(watches, service),
        ...lists,
        services: watches.services.list(),
      },
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

/** Considers only nodes that the template allows, and only the pods of services. Only the scheduler knows about other pods, and a pod that finds no node returns. */
function nodeCandidates(
  watches: ObservedWatches,
  pod: Pod,
  needs: Needs,
  fitness: Fitness,
): readonly MoveCandidate[] {
  const podsByNode = new Map(watches.nodes.list().map(({ metadata }) => [metadata.name, [] as Pod[]]));
  for (const one of watches.pods.list())
    if (!hasPodEnded(one)) podsByNode.get(one.spec.nodeName ?? "")?.push(one);
  const allowed = watches.nodes.list().filter((node) => matchesFlavors(node, needs.flavors));
  return allowed.flatMap((node) => {
    const { name } = node.metadata;
    const score = scoreOn(watches, node, needs, fitness);
    const isOpen =
      nodeAdmits(node, pod.spec.tolerations) && nodeHasRoom(node, podsByNode.get(name) ?? [], pod);
    return score === undefined ? [] : [{ name, score, isOpen }];
  });
}

/** A node lacks each device that its status does not list. */
export function nodeHasRoom({ status }: Node, others: readonly Pod[], pod: Pod): boolean {
  const taken = sumsOf(others);
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
  /** Restricts the nodes; undefined if the Model has no flavors. */
  readonly flavors: PodFlavors | undefined;
}

function needInPods(
  watches: ObservedWatches,
  observed: InferenceService,
  given: Model,
  fitness: Fitness,
): Needs | undefined {
  try {
    const backend = backendOf(watches, observed);
    if (backend === undefined && observed.spec.backendRuntime !== undefined) return undefined;
    const flavored = onFlavorInUse(watches, observed, given, backend?.spec);
    if (flavored === undefined) return undefined;
    const { service, model, flavors, inherited } = flavored;
    const named = { ...namedModels(watches.models, service), model };
    const { draftModel: draft, projectorModel: projector, loraModels = [] } = named;
    const adapters = loraModels.filter((one) => one !== undefined);
    const merged = withPodBackend(service, { ...named, backend, inherited });
    const pod = podNeed({ service: merged, model, draft, projector, adapters });
    const { source, quantization } = weightsOf(model);
    const { settings, claimBytes } = pod;
    return { pod, scorer: fitness.forReplica({ source, quantization, settings, claimBytes }), flavors };
  } catch (error) {
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

/** The service and its Model on the flavors of the template. Undefined if the flavor in the status is not one of pods. */
function onFlavorInUse(
  { deviceClasses, ofService }: ObservedWatches,
  service: InferenceService,
  model: Model,
  backend: BackendRevision["spec"] | undefined,
): (Pick<FlavoredInput, "service" | "model"> & Partial<FlavoredInput>) | undefined {
  const flavors = flavorsOf(service.spec, model)?.flavors;
  if (flavors === undefined) return { service, model };
  const inUse = flavors.find(({ name }) => name === service.status?.flavor?.name);
  if (inUse === undefined || platformOfFlavor(inUse) === "Hosts") return undefined;
  const claimTemplates = ofService.claimTemplates.of(keyOf(service.metadata));
  const classes = usableClasses(deviceClasses.list(), { claimTemplates });
  const stage = stageOf(flavors, inUse, stageContext(service.spec, model.spec.hardware, classes, backend));
  return withStage(service, model, stage, backend?.engine);
}

function scoreOn({ nodeReports }: ObservedWatches, node: Node, { pod, scorer }: Needs, fitness: Fitness) {
  return scoreOf(scorer.fitOn({ node: readReportedNode(fitness, node, nodeReports), pod }));
}

function hostScorer(
  model: Model,
  settings: Parameters<Fitness["forReplica"]>[0]["settings"],
  fitness: Fitness,
  claimBytes: number | undefined,
): ReplicaScorer {
  const claimed = claimBytes === undefined || claimBytes === 0 ? undefined : () => claimBytes;
  return fitness.forReplica({ ...weightsOf(model), settings, claimBytes: claimed });
}

/** Undefined if the fitness is unknown, which does not count as a loss. */
function scoreOf(fit: ReplicaFit): number | undefined {
  if (["tooSmall", "unsupported", "noGpus"].includes(fit.at)) return 0;
  return fit.at === "fits" ? fit.scored?.score : undefined;
}

function weightsOf(model: Model) {
  return { source: model.spec.source, quantization: quantizationOfWeights(model) };
}
