/** Determines where another replica of a service would fit, from the objects of the cluster, in the same way as the controller; on the flavors of its Model, if it has some. Pure. */

import { MetalbridgeError } from "../../api/errors.ts";
import type { Flavor } from "../../api/flavors.ts";
import type { Host } from "../../api/host.ts";
import type { InferenceReplica } from "../../api/inference-replica.ts";
import type { InferenceService } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import { keyOf } from "../../api/names.ts";
import type { BackendRevision } from "../backend.ts";
import { speedsByClass, subjectOf } from "../benchmark/subject.ts";
import { type BenchmarkTable, NO_BENCHMARKS } from "../benchmark/table.ts";
import { type Claim, claimWith } from "../claim.ts";
import { demandOf } from "../demand.ts";
import { onHostsOf } from "../flavors/apply.ts";
import { contradictionOf } from "../flavors/contradictions.ts";
import { flavorsOf, platformOfFlavor } from "../flavors/narrow.ts";
import type { NamedModels } from "../named-models.ts";
import { claimOfReplica } from "../placement/claims.ts";
import { hostFacts } from "../placement/host-facts.ts";
import type { Demand } from "../placement/types.ts";
import { type Resolved, resolveService } from "../resolve.ts";
import type { ScoreWeights } from "../score.ts";
import { explainFit, type FitReport } from "./fit.ts";

export interface FitObjects extends NamedModels {
  readonly service: InferenceService;
  /** The BackendRuntime that the service names. */
  readonly backend?: BackendRevision | undefined;
  /** All hosts of the cluster. */
  readonly hosts: readonly Host[];
  /** Settings of the flavor that the service runs on. */
  readonly params?: Flavor["params"];
  readonly replicas: readonly InferenceReplica[];
  readonly services: readonly InferenceService[];
  readonly benchmarks?: BenchmarkTable | undefined;
  readonly scoreWeights?: ScoreWeights | undefined;
}

export interface ServiceFit {
  readonly report: FitReport;
  readonly demand: Demand;
  readonly template: Resolved["template"];
  readonly claim: Claim;
  readonly beyondTraining: string | undefined;
}

/** Throws MetalbridgeError if the service cannot run anywhere in its current form. */
export function fitOfService(objects: FitObjects, nowMs: number): ServiceFit {
  const { draftModel, hosts, replicas, services } = objects;
  const byKey = new Map(services.map((one) => [keyOf(one.metadata), one]));
  const uid = byKey.get(keyOf(objects.service.metadata))?.metadata.uid;
  // With the uid of the existing service, the replicas keep their runtime.
  const service = {
    ...objects.service,
    metadata: { ...objects.service.metadata, ...(uid === undefined ? {} : { uid }) },
  };
  const moment = { wallMs: nowMs, monotonicMs: nowMs };
  const claims = replicas.map((replica) => {
    const owner = keyOf({ namespace: replica.metadata.namespace, name: replica.spec.template.serviceName });
    return claimOfReplica(replica, byKey.get(owner), moment);
  });
  // The agents of these replicas have read the headers of files that only hosts have.
  const ofNamespace = replicas.filter(({ metadata }) => metadata.namespace === service.metadata.namespace);
  const resolution = resolveService({ ...objects, service, replicas: ofNamespace, hosts });
  if (resolution.at === "blocked") throw new MetalbridgeError(resolution.code, resolution.message);
  const { template, claim, install, model, beyondTraining } = resolution;
  const slot = { ordinal: 0, mayPreempt: true, predecessors: [], refusals: [] };
  const subject = subjectOf(model, service, { runtime: template.runtime });
  const speeds = speedsByClass(objects.benchmarks ?? NO_BENCHMARKS, subject);
  const demand = demandOf({ speeds, service, model, template, claim, install, ...slot });
  const report = explainFit(
    {
      hosts: hosts.map(hostFacts),
      claims,
      demand,
      scoreWeights: objects.scoreWeights,
      settings: template.engine,
      claimWith: claimWith({ template, model, draftModel, replicas: ofNamespace }),
    },
    nowMs,
  );
  return { report, demand, template, claim, beyondTraining };
}

export interface FlavorFit extends ServiceFit {
  /** The flavor of the result: the first one with room on a host, or else the first one for hosts. Undefined without flavors. */
  readonly flavor: string | undefined;
  /** Flavors for pods, which kube-scheduler places. */
  readonly inPods: readonly string[];
}

/** Throws MetalbridgeError if the service cannot run on any host in its current form. */
export function fitOnFlavors(objects: FitObjects & { readonly model: Model }, nowMs: number): FlavorFit {
  const { service, model } = objects;
  const narrowed = flavorsOf(service.spec, model);
  if (narrowed === undefined) return { ...fitOfService(objects, nowMs), flavor: undefined, inPods: [] };
  const { flavors, unknown } = narrowed;
  const owner = `Model ${model.metadata.name}`;
  if (flavors.length === 0)
    throw new MetalbridgeError("FlavorNotFound", `${owner} has no flavor ${unknown.join(", ")}`);
  const judged = flavors.map((flavor) => ({ flavor, problem: problemOnHosts(service, flavor) }));
  const [first, ...others] = judged.filter(({ problem }) => problem === undefined);
  if (first === undefined) {
    const reasons = judged.map(({ flavor, problem }) => `${flavor.name}: ${problem}`).join("; ");
    throw new MetalbridgeError("NoFlavorFits", `no flavor of ${owner} runs on hosts: ${reasons}`);
  }
  const inPods = flavors.filter((one) => platformOfFlavor(one) === "Pods").map(({ name }) => name);
  const fitOf = ({ flavor }: { readonly flavor: Flavor }): FlavorFit => ({
    ...fitOn(objects, flavor, nowMs),
    flavor: flavor.name,
    inPods,
  });
  const hasRoom = ({ report }: ServiceFit) => report.choice !== undefined;
  const ofFirst = fitOf(first);
  return hasRoom(ofFirst) ? ofFirst : (others.map(fitOf).find(hasRoom) ?? ofFirst);
}

function problemOnHosts({ spec }: InferenceService, flavor: Flavor): string | undefined {
  return platformOfFlavor(flavor) === "Pods"
    ? "it selects nodes, where kube-scheduler decides"
    : contradictionOf(spec, flavor);
}

function fitOn(objects: FitObjects, flavor: Flavor, nowMs: number): ServiceFit {
  const service = onHostsOf(objects.service, flavor);
  return fitOfService({ ...objects, service, params: flavor.params }, nowMs);
}
