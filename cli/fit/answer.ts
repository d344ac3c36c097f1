/** Computes the answer of `metalbridge fit` with the same functions and objects as the controller. */

import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { ReplicaMemory } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { BENCHMARKS_NAME } from "../../src/capacity/benchmark/table.ts";
import type { FitReport } from "../../src/capacity/fit/fit.ts";
import { type FlavorFit, fitOnFlavors, type ServiceFit } from "../../src/capacity/fit/service-fit.ts";
import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { quantizationOfWeights } from "../../src/capacity/resolve.ts";
import { placeReason, runsOn } from "../../src/capacity/runs-on.ts";
import { DEFAULT_SCORE_WEIGHTS } from "../../src/capacity/score.ts";
import { NODES } from "../../src/kube/kinds.ts";
import { readCatalogFiles } from "../catalog/read.ts";
import { readBenchmarkTable } from "../cluster/benchmarks.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { describeNodes, listIfAllowed } from "../cluster/nodes.ts";
import { listVisible, missingOf, UNSEEN_CLAIMS } from "../cluster/visible.ts";
import { type ExplainedMachine, explainMachines } from "./explain.ts";
import type { FitFlags } from "./flags.ts";
import { type FitTarget, readFitTarget } from "./target.ts";

export interface FitAnswer extends FitReport {
  /** True if the reader may not list hosts: then it is unknown where the model fits. */
  readonly areHostsHidden?: true | undefined;
  /** `namespace/name`, which is generated if only a model was given. */
  readonly service: string;
  readonly model: { readonly name: string; readonly source: string; readonly quantization?: string };
  /** The required runtime: spec.runtime, or the selected one. */
  readonly runtime: string;
  readonly priority: string;
  readonly contextSize: number;
  readonly parallelSlots: number;
  /** Absent if only a host can compute it. */
  readonly claim?: ReplicaMemory;
  /** Services that are ahead in the queue. */
  readonly waitingBefore: readonly string[];
  readonly notes: readonly string[];
  /** With --explain: hosts, then nodes. */
  readonly machines?: readonly ExplainedMachine[] | undefined;
}

export async function answerFit(
  cluster: Cluster,
  name: string | undefined,
  flags: FitFlags,
): Promise<FitAnswer> {
  const target = await readFitTarget(cluster, name, flags);
  const seen = await Promise.all([
    listVisible(cluster, HOSTS),
    listVisible(cluster, INFERENCE_REPLICAS),
    listVisible(cluster, INFERENCE_SERVICES),
  ]);
  const { items: hosts = [] } = seen[0];
  const { items: replicas = [] } = seen[1];
  const { items: services = [] } = seen[2];
  const { service } = target;
  const isRunning = services.some((one) => keyOf(one.metadata) === keyOf(service.metadata));
  const benchmarks = await readBenchmarkTable(cluster);
  const { scoreWeights } = flags;
  const fit = fitOnFlavors({ ...target, hosts, replicas, services, benchmarks, scoreWeights }, Date.now());
  const { report, demand, template, claim } = fit;
  return {
    service: keyOf(service.metadata),
    model: describeModel(target),
    runtime: demand.runtime,
    priority: service.spec.priority,
    contextSize: template.engine.contextSize ?? 0,
    parallelSlots: template.engine.parallelSlots ?? 1,
    claim: claim.at === "estimated" ? claim.memory : undefined,
    ...report,
    areHostsHidden: seen[0].items === undefined || undefined,
    waitingBefore: waitingBefore(services, service),
    notes: [
      ...missingOf(...seen),
      ...(seen[1].missing === undefined ? [] : [UNSEEN_CLAIMS]),
      ...placeNotes(target),
      ...flavorNotes(fit),
      ...notesOf(
        target,
        isRunning && flags.filename !== undefined,
        claim.at === "hostDecides",
        fit.beyondTraining,
        benchmarks === undefined && flags.explain === true,
      ),
    ],
    machines: flags.explain === true ? await explain(cluster, target, { fit, hosts, flags }) : undefined,
  };
}

async function explain(
  cluster: Cluster,
  { model, service }: FitTarget,
  {
    fit,
    hosts,
    flags,
  }: { readonly fit: ServiceFit; readonly hosts: readonly Host[]; readonly flags: FitFlags },
): Promise<readonly ExplainedMachine[]> {
  const { records } = await readCatalogFiles(flags.catalog);
  const { scoreWeights: weights = DEFAULT_SCORE_WEIGHTS } = flags;
  // Users of a namespace usually may not list nodes.
  const nodes = await describeNodes(cluster, await listIfAllowed(cluster, NODES));
  return explainMachines({ fit, model, service, hosts, nodes, records, weights });
}

function describeModel({ model }: FitTarget): FitAnswer["model"] {
  return {
    name: model.metadata.name,
    source: model.spec.source,
    quantization: quantizationOfWeights(model),
  };
}

/** Queued services with at least the priority of this service, which would be scheduled after them. */
function waitingBefore(services: readonly InferenceService[], { spec }: InferenceService): readonly string[] {
  return services
    .filter(({ status }) => (status?.queuePosition ?? 0) > 0)
    .filter(({ status }) => (status?.effectivePriority ?? 0) >= PRIORITIES[spec.priority])
    .sort((a, b) => (a.status?.queuePosition ?? 0) - (b.status?.queuePosition ?? 0))
    .map(({ metadata }) => keyOf(metadata));
}

/** Hosts are judged also for a service that uses none. */
function placeNotes({ service, model }: FitTarget): readonly string[] {
  if (runsOn(service, model) !== "Pods") return [];
  return [`the service ${placeReason(service, model)}; the hosts below count with spec.placement.on: Hosts`];
}

function flavorNotes({ flavor, inPods }: FlavorFit): readonly string[] {
  if (flavor === undefined) return [];
  const others = inPods.length === 0 ? "" : `; not judged, because they run in pods: ${inPods.join(", ")}`;
  return [`on flavor ${flavor}${others}`];
}

function notesOf(
  { unchecked }: FitTarget,
  isRunning: boolean,
  isOnHost: boolean,
  beyondTraining: string | undefined,
  isTableUnread: boolean,
): readonly string[] {
  const notes: string[] = [];
  if (isOnHost) notes.push("the file is on the host: only its agent can read how much memory it needs");
  if (unchecked !== undefined) notes.push(`not checked by the API server: ${unchecked}`);
  if (isTableUnread)
    notes.push(
      `speeds are live rates only: there is no right to get ConfigMap ${BENCHMARKS_NAME} in ${NAMESPACE_SYSTEM}`,
    );
  if (beyondTraining !== undefined) notes.push(beyondTraining);
  if (isRunning)
    notes.push("the service exists: its replicas are counted beside the new one, as in a rollout");
  return notes;
}
