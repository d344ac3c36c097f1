/** The answer of `metalbridge fit`: what the controller would find out, from the same functions and the same objects. */

import { claimWithOf } from "../../controller/placement/claim-with.ts";
import { claimOfReplica } from "../../controller/placement/claims.ts";
import { draftService } from "../../controller/service/plan/plan.ts";
import type { ReplicaMemory } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { MetalbridgeError } from "../../src/errors.ts";
import { explainFit, type FitReport } from "../../src/placement/fit/fit.ts";
import { hostFacts } from "../../src/placement/host-facts.ts";
import { PRIORITIES } from "../../src/placement/priority.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { listAll } from "../cluster/find.ts";
import type { FitFlags } from "./flags.ts";
import { readTarget, type Target } from "./target.ts";

export interface FitAnswer extends FitReport {
  /** `namespace/name`; made up where only a model was named. */
  readonly service: string;
  readonly model: { readonly name: string; readonly source: string; readonly quantization?: string };
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
  const { service } = target;
  const nothing = { hosts: new Map(), replicas: [], slices: [], kubeServices: [], revisions: [] };
  const { resolution, demands } = draftService({ ...target, ...nothing });
  if (resolution.at === "blocked") throw new MetalbridgeError(resolution.code, resolution.message);
  const [demand] = demands;
  if (demand === undefined) throw new MetalbridgeError("NoHostFits", "the service wants no replica");
  const [hosts, replicas, services] = await Promise.all([
    listAll(cluster, HOSTS),
    listAll(cluster, INFERENCE_REPLICAS),
    listAll(cluster, INFERENCE_SERVICES),
  ]);
  const byKey = new Map(services.map((one) => [keyOf(one), one]));
  const nowMs = Date.now();
  const moment = { wallMs: nowMs, monotonicMs: nowMs };
  const claims = replicas.map((replica) => {
    const owner = `${replica.metadata.namespace}/${replica.spec.template.serviceName}`;
    return claimOfReplica(replica, byKey.get(owner), moment);
  });
  const { template, claim } = resolution;
  const claimWith = claimWithOf(resolution, target);
  const report = explainFit(
    { hosts: hosts.map(hostFacts), claims, demand, settings: template.engine, claimWith },
    nowMs,
  );
  return {
    service: keyOf(service),
    model: aboutModel(target),
    priority: service.spec.priority,
    contextSize: template.engine.contextSize ?? 0,
    parallelSlots: template.engine.parallelSlots ?? 1,
    ...(claim.at === "estimated" ? { claim: claim.memory } : {}),
    ...report,
    waitingBefore: waitingBefore(services, service),
    notes: notesOf(
      target,
      byKey.has(keyOf(service)) && flags.filename !== undefined,
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
    .map(keyOf);
}

function notesOf(
  { unchecked }: Target,
  isRunning: boolean,
  isOnHost: boolean,
  beyondTraining: string | undefined,
): readonly string[] {
  const notes: string[] = [];
  if (isOnHost) notes.push("the file is on the host, so only its agent can tell what it needs");
  if (unchecked !== undefined) notes.push(`the API server did not check it: ${unchecked}`);
  if (beyondTraining !== undefined) notes.push(beyondTraining);
  if (isRunning)
    notes.push("the service exists: its replicas are counted beside the new one, as in a rollout");
  return notes;
}

function keyOf({ metadata }: InferenceService): string {
  return `${metadata.namespace}/${metadata.name}`;
}
