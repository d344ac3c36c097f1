/** The answer of `metalbridge fit`: what the controller would find out, from the same functions and the same objects. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import type { ReplicaMemory } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { claimWith } from "../../src/capacity/claim.ts";
import { demandOf } from "../../src/capacity/demand.ts";
import { explainFit, type FitReport } from "../../src/capacity/fit/fit.ts";
import { claimOfReplica } from "../../src/capacity/placement/claims.ts";
import { hostFacts } from "../../src/capacity/placement/host-facts.ts";
import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { resolveService } from "../../src/capacity/resolve.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { listAll } from "../cluster/find.ts";
import type { FitFlags } from "./flags.ts";
import { readTarget, type Target } from "./target.ts";

export interface FitAnswer extends FitReport {
  /** `namespace/name`; made up where only a model was named. */
  readonly service: string;
  readonly model: { readonly name: string; readonly source: string; readonly quantization?: string };
  /** What a host must have: spec.runtime, or what was chosen. */
  readonly runtime: string;
  readonly priority: string;
  readonly contextSize: number;
  readonly parallelSlots: number;
  /** Absent where only a host can tell. */
  readonly claim?: ReplicaMemory;
  /** Services that wait for capacity and go first. */
  readonly waitingBefore: readonly string[];
  readonly notes: readonly string[];
}

export async function answerFit(
  cluster: Cluster,
  name: string | undefined,
  flags: FitFlags,
): Promise<FitAnswer> {
  const target = await readTarget(cluster, name, flags);
  const [hosts, replicas, services] = await Promise.all([
    listAll(cluster, HOSTS),
    listAll(cluster, INFERENCE_REPLICAS),
    listAll(cluster, INFERENCE_SERVICES),
  ]);
  const byKey = new Map(services.map((one) => [keyOf(one.metadata), one]));
  const uid = byKey.get(keyOf(target.service.metadata))?.metadata.uid;
  // With the uid of one that runs, its replicas keep the runtime that was chosen for them.
  const service = {
    ...target.service,
    metadata: { ...target.service.metadata, ...(uid === undefined ? {} : { uid }) },
  };
  const nowMs = Date.now();
  const moment = { wallMs: nowMs, monotonicMs: nowMs };
  const claims = replicas.map((replica) => {
    const owner = keyOf({ namespace: replica.metadata.namespace, name: replica.spec.template.serviceName });
    return claimOfReplica(replica, byKey.get(owner), moment);
  });
  // Their agents have read the headers of files that only hosts have.
  const ofNamespace = replicas.filter(({ metadata }) => metadata.namespace === service.metadata.namespace);
  const resolution = resolveService({ ...target, service, replicas: ofNamespace, hosts });
  if (resolution.at === "blocked") throw new MetalbridgeError(resolution.code, resolution.message);
  const { template, claim, model } = resolution;
  const slot = { ordinal: 0, mayPreempt: true, predecessors: [], refusals: [] };
  const demand = demandOf({ service, model, template, claim, ...slot });
  const report = explainFit(
    {
      hosts: hosts.map(hostFacts),
      claims,
      demand,
      settings: template.engine,
      claimWith: claimWith({ template, model, draftModel: target.draftModel, replicas: ofNamespace }),
    },
    nowMs,
  );
  return {
    service: keyOf(service.metadata),
    model: aboutModel(target),
    runtime: demand.runtime,
    priority: service.spec.priority,
    contextSize: template.engine.contextSize ?? 0,
    parallelSlots: template.engine.parallelSlots ?? 1,
    ...(claim.at === "estimated" ? { claim: claim.memory } : {}),
    ...report,
    waitingBefore: waitingBefore(services, service),
    notes: notesOf(
      target,
      byKey.has(keyOf(service.metadata)) && flags.filename !== undefined,
      claim.at === "hostDecides",
      resolution.beyondTraining,
    ),
  };
}

function aboutModel({ model }: Target): FitAnswer["model"] {
  const quantization = model.status?.gguf?.quantization ?? model.spec.quantization;
  const about = { name: model.metadata.name, source: model.spec.source };
  return quantization === undefined ? about : { ...about, quantization };
}

/** Those with a better turn; the place of the one that is asked about would be behind them. */
function waitingBefore(services: readonly InferenceService[], { spec }: InferenceService): readonly string[] {
  return services
    .filter(({ status }) => (status?.queuePosition ?? 0) > 0)
    .filter(({ status }) => (status?.effectivePriority ?? 0) >= PRIORITIES[spec.priority])
    .sort((a, b) => (a.status?.queuePosition ?? 0) - (b.status?.queuePosition ?? 0))
    .map(({ metadata }) => keyOf(metadata));
}

function notesOf(
  { unchecked }: Target,
  isRunning: boolean,
  isOnHost: boolean,
  beyondTraining: string | undefined,
): readonly string[] {
  const notes: string[] = [];
  if (isOnHost) notes.push("the file is on the host: only its agent can read how much memory it needs");
  if (unchecked !== undefined) notes.push(`not checked by the API server: ${unchecked}`);
  if (beyondTraining !== undefined) notes.push(beyondTraining);
  if (isRunning)
    notes.push("the service exists: its replicas are counted beside the new one, as in a rollout");
  return notes;
}
