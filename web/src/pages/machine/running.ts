/** A machine and what runs on it: replicas on a host, pods on a node of the cluster. Pure. */
import { LABEL_SERVICE } from "../../../../src/api/group.ts";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { type PodReport, restartsOf, stateOfPod } from "../../../../src/verdicts/pod.ts";
import { claimBytesOf, type StateWithReason, stateOfReplica } from "../../../../src/verdicts/replica.ts";
import type { ApiObject } from "../../api/kube.ts";
import type { ShownCondition } from "../../parts/objects/objects.tsx";

interface NodeObject extends ApiObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly conditions?: readonly ShownCondition[] };
}

type PodObject = ApiObject & Pick<PodReport, "status">;

export type Machine =
  | { readonly kind: "Host"; readonly object: Host; readonly running: readonly InferenceReplica[] }
  | { readonly kind: "Node"; readonly object: NodeObject; readonly running: readonly PodObject[] };

/** A replica or a pod. */
export interface Running {
  readonly key: string;
  readonly name: string;
  readonly state: StateWithReason;
  /** `namespace/name`. */
  readonly service: string;
  readonly restarts: number;
  /** Only replicas have it. */
  readonly claimBytes?: number | undefined;
  readonly usedBytes?: number | undefined;
}

/** Sorted by namespace and name. */
export function runningOn({ kind, running }: Machine): readonly Running[] {
  const rows = kind === "Host" ? running.map(ofReplica) : running.map(ofPod);
  return rows.sort((a, b) => a.key.localeCompare(b.key));
}

function ofReplica(replica: InferenceReplica): Running {
  const { metadata, spec, status } = replica;
  return {
    key: `${metadata.namespace}/${metadata.name}`,
    name: metadata.name,
    state: stateOfReplica(replica),
    service: `${metadata.namespace}/${spec.template.serviceName}`,
    restarts: status?.restarts ?? 0,
    claimBytes: claimBytesOf(replica),
    usedBytes: status?.memory?.footprintBytes,
  };
}

function ofPod(pod: PodObject): Running {
  const { namespace, name, labels } = pod.metadata;
  return {
    key: `${namespace}/${name}`,
    name,
    state: stateOfPod(pod),
    service: `${namespace}/${labels?.[LABEL_SERVICE] ?? ""}`,
    restarts: restartsOf(pod),
  };
}

/** What a drain does, in numbers. `maxSeconds` is the longest drain of a Ready replica. */
export function drainEffect(replicas: readonly Pick<InferenceReplica, "spec" | "status">[]) {
  const ready = replicas.filter(({ status }) => status?.phase === "Ready");
  const requests = ready.reduce((sum, { status }) => sum + (status?.performance?.requestsInFlight ?? 0), 0);
  return {
    replicas: replicas.length,
    ready: ready.length,
    maxSeconds: Math.max(0, ...ready.map(({ spec }) => spec.drainSeconds)),
    requests: Math.round(requests),
  };
}
