/** Builds the replicas and slices of a service on hosts. Pure. */
import {
  ANNOTATION_ADDRESSES,
  ANNOTATION_FINGERPRINTS,
  ANNOTATION_PLACEMENT_REASON,
  ANNOTATION_PLACEMENT_SCORE,
  FINALIZER_ENGINE,
  LABEL_HOST,
  LABEL_REPLICA,
  LABEL_REVISION,
  LABEL_SERVICE_NAME,
  LABEL_SLICE_MANAGED_BY,
  SLICE_MANAGED_BY,
} from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { replicaName, serviceName, sliceName } from "../../../src/api/names.ts";
import { familyLabels, MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import { readProbes } from "../../../src/api/probes.ts";
import { type BackendRevision, probesWithBackend } from "../../../src/capacity/backend.ts";
import type { Placed } from "../../../src/capacity/placement/types.ts";
import type { TemplateWithoutHost } from "../../../src/capacity/template.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { defined } from "../../../src/util/defined.ts";
import type { Sealing } from "./observed.ts";

export interface ReplicaParts {
  readonly service: InferenceService;
  readonly model?: Model | undefined;
  /** The content of the BackendRuntime that the service uses. */
  readonly backend?: BackendRevision | undefined;
  readonly template: TemplateWithoutHost;
  readonly memory: InferenceReplica["spec"]["memory"];
  readonly ordinal: number;
  /** The host that placement chose, and the reason. */
  readonly placed: Pick<Placed, "host" | "score" | "why">;
  readonly sealing: Sealing;
  /** Names of existing replicas, which are not used again. */
  readonly taken: ReadonlySet<string>;
}

/** Uses the lowest attempt whose name is free, so that two controllers that place the same slot collide on the name. */
export function desiredReplica({
  service,
  model,
  backend,
  template,
  memory,
  ordinal,
  placed,
  sealing,
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
      ...ownedObjectRef(service, nameOf(attempt)),
      labels: {
        ...ownerLabels(service),
        [LABEL_HOST]: placed.host,
        [LABEL_REVISION]: revision,
        ...familyLabels(model),
        ...MANAGED_BY,
      },
      annotations: {
        [ANNOTATION_PLACEMENT_REASON]: placed.why,
        [ANNOTATION_PLACEMENT_SCORE]: String(placed.score),
      },
      finalizers: [FINALIZER_ENGINE],
    },
    spec: defined({
      template: { hostName: placed.host, ...template },
      memory,
      ...mutableSpec(service, backend),
      clientFingerprints: clientsOf(template, sealing),
    }),
  };
}

/** The clients that a sealed replica serves. Undefined: those that it has stay, and a new one serves none. */
export function clientsOf(
  { transport }: Pick<TemplateWithoutHost, "transport">,
  { clients }: Sealing,
): string[] | undefined {
  return transport === "Sealed" && clients.length > 0 ? [...clients] : undefined;
}

/** Why placement chose the host of the replica. */
export function placementReasonOf({ metadata }: InferenceReplica): string {
  return metadata.annotations?.[ANNOTATION_PLACEMENT_REASON] ?? "";
}

type MutableSpec = Pick<
  InferenceReplica["spec"],
  "priority" | "evictionProtection" | "probes" | "drainSeconds" | "hostLostSeconds"
>;

/** Fields of a replica that follow its service without a restart. */
export function mutableSpec({ spec }: InferenceService, backend: BackendRevision | undefined): MutableSpec {
  return {
    priority: spec.priority,
    evictionProtection: spec.evictionProtection,
    probes: readProbes(probesWithBackend(spec, backend, "Hosts")).value,
    drainSeconds: spec.rollout.drainSeconds,
    hostLostSeconds: spec.hostLostSeconds,
  };
}

/** The slice of a replica without endpoints and ports, which its agent adds. */
export function desiredSlice(
  replica: InferenceReplica,
  service: InferenceService,
  host: Host | undefined,
): EndpointSlice {
  const addresses = host?.spec.addresses ?? [];
  const first = host?.status?.addresses?.[0] ?? addresses[0] ?? "";
  const isSealed = replica.spec.template.transport === "Sealed";
  const fingerprints = host?.status?.transport?.fingerprints ?? [];
  return {
    metadata: {
      ...ownedObjectRef(service, sliceName(replica.metadata.name)),
      labels: defined({
        ...ownerLabels(service),
        ...MANAGED_BY,
        [LABEL_HOST]: replica.spec.template.hostName,
        [LABEL_REPLICA]: replica.metadata.name,
        // With it, kube-proxy would send plain requests to a sealed replica.
        [LABEL_SERVICE_NAME]: isSealed ? undefined : serviceName(service.metadata.name),
        [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY,
      }),
      annotations: defined({
        [ANNOTATION_ADDRESSES]: addresses.join(","),
        [ANNOTATION_FINGERPRINTS]: isSealed ? fingerprints.join(",") : undefined,
      }),
    },
    addressType: first.includes(":") ? "IPv6" : "IPv4",
    endpoints: [],
  };
}
