/** A machine and what runs on it: replicas on a host, pods on a node of the cluster. Pure. */
import { LABEL_SERVICE } from "../../../../src/api/group.ts";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import type { ApiObject } from "../../api/kube.ts";
import type { ShownCondition } from "../../parts/conditions.tsx";

interface NodeObject extends ApiObject {
  readonly spec?: { readonly unschedulable?: boolean };
  readonly status?: { readonly conditions?: readonly ShownCondition[] };
}

interface PodObject extends ApiObject {
  readonly status?: {
    readonly phase?: string;
    readonly message?: string;
    readonly conditions?: readonly ShownCondition[];
  };
}

export type Machine =
  | { readonly kind: "Host"; readonly object: Host; readonly running: readonly InferenceReplica[] }
  | { readonly kind: "Node"; readonly object: NodeObject; readonly running: readonly PodObject[] };

/** A replica or a pod. */
export interface Running {
  readonly key: string;
  readonly name: string;
  readonly state: StateWord;
  /** `namespace/name`. */
  readonly service: string;
  readonly message: string;
  /** Only replicas have it. */
  readonly claimBytes?: number | undefined;
  readonly usedBytes?: number | undefined;
  readonly restarts?: number | undefined;
}

/** Sorted by namespace and name. */
export function runningOn({ kind, running }: Machine): readonly Running[] {
  const rows = kind === "Host" ? running.map(ofReplica) : running.map(ofPod);
  return rows.sort((a, b) => a.key.localeCompare(b.key));
}

function ofReplica({ metadata, spec, status }: InferenceReplica): Running {
  const phase = status?.phase ?? "Pending";
  const others = { Ready: "ok", Failed: "bad", Waiting: "warn" } as const;
  const level = others[phase as keyof typeof others] ?? "busy";
  return {
    key: `${metadata.namespace}/${metadata.name}`,
    name: metadata.name,
    state: { word: phase, level },
    service: `${metadata.namespace}/${spec.template.serviceName}`,
    message: status?.message ?? "",
    claimBytes: spec.memory.claimBytes,
    usedBytes: status?.memory?.footprintBytes,
    restarts: status?.restarts ?? 0,
  };
}

function ofPod({ metadata, status }: PodObject): Running {
  const { namespace, name, labels } = metadata;
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  const phase = status?.phase ?? "Pending";
  return {
    key: `${namespace}/${name}`,
    name,
    state:
      isReady === true
        ? { word: "Ready", level: "ok" }
        : { word: phase, level: phase === "Failed" ? "bad" : "busy" },
    service: `${namespace}/${labels?.[LABEL_SERVICE] ?? ""}`,
    message: status?.message ?? "",
  };
}
