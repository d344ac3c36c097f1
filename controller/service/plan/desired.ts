/** The objects that a service wants, as they are created. Pure. */
import {
  ANNOTATION_ADDRESSES,
  ANNOTATION_PLACEMENT_REASON,
  ANNOTATION_PLACEMENT_SCORE,
  FINALIZER_ENGINE,
  LABEL_HOST,
  LABEL_REPLICA,
  LABEL_REVISION,
  LABEL_SERVICE,
  LABEL_SERVICE_NAME,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  PORT_NAME,
  SLICE_MANAGED_BY,
} from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { replicaName, revisionName, serviceName, sliceName } from "../../../src/api/names.ts";
import type { RevisionData } from "../../../src/api/revision-data.ts";
import type { TemplateWithoutHost } from "../../../src/api/to-template.ts";
import { toReplicaProbes } from "../../../src/api/to-template.ts";
import type { ControllerRevision, EndpointSlice, Service } from "../../../src/kube/objects.ts";
import type { Placed } from "../../../src/placement/types.ts";

const MANAGED_BY = { "app.kubernetes.io/managed-by": "metalbridge" };

/** Labels that everything of one service carries. */
export function ownerLabels({ metadata }: InferenceService): Record<string, string> {
  return { [LABEL_SERVICE]: metadata.name, [LABEL_SERVICE_UID]: metadata.uid ?? "" };
}

/** The Service's selector and `status.selector`: nothing in it can ever change. */
export function selectorOf({ metadata }: InferenceService): Record<string, string> {
  return { [LABEL_SERVICE]: metadata.name };
}

export function desiredKubeService(service: InferenceService): Service {
  const { endpoint } = service.spec;
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      ...place(service, serviceName(service.metadata.name)),
      labels: { ...ownerLabels(service), ...MANAGED_BY },
    },
    spec: {
      type: endpoint.type,
      selector: selectorOf(service),
      ports: [
        {
          name: PORT_NAME,
          port: endpoint.port,
          protocol: "TCP",
          ...(endpoint.nodePort === undefined ? {} : { nodePort: endpoint.nodePort }),
        },
      ],
    },
  };
}

export interface ReplicaParts {
  readonly service: InferenceService;
  readonly template: TemplateWithoutHost;
  readonly memory: InferenceReplica["spec"]["memory"];
  readonly ordinal: number;
  /** Where placement puts it, and why. */
  readonly placed: Pick<Placed, "host" | "score" | "why">;
  /** Names that exist already: an attempt that is taken is not used again. */
  readonly taken: ReadonlySet<string>;
}

/** The lowest attempt whose name is free: two controllers that place the same slot collide on it. */
export function desiredReplica({
  service,
  template,
  memory,
  ordinal,
  placed,
  taken,
}: ReplicaParts): InferenceReplica {
  const { name: serviceName, uid = "" } = service.metadata;
  const { revision } = template;
  const nameOf = (attempt: number) =>
    replicaName({ service: serviceName, serviceUid: uid, ordinal, revision, attempt });
  let attempt = 0;
  while (taken.has(nameOf(attempt))) attempt += 1;
  return {
    metadata: {
      ...place(service, nameOf(attempt)),
      labels: {
        ...ownerLabels(service),
        [LABEL_HOST]: placed.host,
        [LABEL_REVISION]: revision,
        ...MANAGED_BY,
      },
      annotations: {
        [ANNOTATION_PLACEMENT_REASON]: placed.why,
        [ANNOTATION_PLACEMENT_SCORE]: String(placed.score),
      },
      finalizers: [FINALIZER_ENGINE],
    },
    spec: { template: { hostName: placed.host, ...template }, memory, ...mutableSpec(service) },
  };
}

type MutableSpec = Pick<
  InferenceReplica["spec"],
  "priority" | "evictionProtection" | "probes" | "drainSeconds" | "hostLostSeconds"
>;

/** What of a replica follows its service without a restart. */
export function mutableSpec({ spec }: InferenceService): MutableSpec {
  return {
    priority: spec.priority,
    evictionProtection: spec.evictionProtection,
    probes: toReplicaProbes(spec),
    drainSeconds: spec.rollout.drainSeconds,
    hostLostSeconds: spec.hostLostSeconds,
  };
}

/** The skeleton of a replica's slice; endpoints and ports are its agent's. */
export function desiredSlice(
  replica: InferenceReplica,
  service: InferenceService,
  host: Host | undefined,
): EndpointSlice {
  const addresses = host?.spec.addresses ?? [];
  const first = host?.status?.addresses?.[0] ?? addresses[0] ?? "";
  return {
    metadata: {
      ...place(service, sliceName(replica.metadata.name)),
      labels: {
        ...ownerLabels(service),
        ...MANAGED_BY,
        [LABEL_HOST]: replica.spec.template.hostName,
        [LABEL_REPLICA]: replica.metadata.name,
        [LABEL_SERVICE_NAME]: serviceName(service.metadata.name),
        [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY,
      },
      annotations: { [ANNOTATION_ADDRESSES]: addresses.join(",") },
    },
    addressType: first.includes(":") ? "IPv6" : "IPv4",
    endpoints: [],
  };
}

export function desiredRevision(
  service: InferenceService,
  data: RevisionData,
  revision: number,
): ControllerRevision {
  const hash = data.template.revision;
  return {
    metadata: {
      ...place(service, revisionName(service.metadata.name, hash)),
      labels: { ...ownerLabels(service), [LABEL_REVISION]: hash, ...MANAGED_BY },
    },
    revision,
    data,
  };
}

function place({ metadata }: InferenceService, name: string): { name: string; namespace: string } {
  return { name, namespace: metadata.namespace ?? "default" };
}
