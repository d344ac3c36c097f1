/** Generated names, and the limits that keep them valid. */
import { hash } from "../util/hash.ts";

/** Maximum length of an InferenceService's name: a DNS label that leaves room for suffixes. */
export const SERVICE_NAME_MAX = 50;
/** Maximum length of a Host's name, which is used as a label value. */
export const HOST_NAME_MAX = 63;
/** Maximum length of an InferenceReplica's name, which is used as a label value and as the name of a slice. */
export const REPLICA_NAME_MAX = 63;

const HASH_DIGITS = 10;

/** `namespace/name`, or `name` for cluster-scoped objects: the key of an object in caches, queues and plans. */
export function keyOf({
  namespace,
  name,
}: {
  readonly namespace?: string | undefined;
  readonly name: string;
}): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export interface ReplicaNameParts {
  readonly service: string;
  readonly serviceUid: string;
  readonly ordinal: number;
  readonly revision: string;
  /** Incremented when the same slot is placed again, for example after its host was lost. */
  readonly attempt: number;
}

/**
 * `<service>-<ordinal>-<hash>`. The name does not contain the host on purpose: a second placement of the same slot
 * collides (AlreadyExists) instead of running twice. A long service name is truncated; the hash keeps it unique.
 */
export function replicaName({ service, serviceUid, ordinal, revision, attempt }: ReplicaNameParts): string {
  const digest = hash(JSON.stringify([serviceUid, ordinal, revision, attempt]), HASH_DIGITS);
  const suffix = `-${ordinal}-${digest}`;
  return `${service.slice(0, REPLICA_NAME_MAX - suffix.length)}${suffix}`;
}

/** The EndpointSlice of a replica has the replica's name. */
export function sliceName(replica: string): string {
  return replica;
}

/** The EndpointSlice that leads the Service of an InferenceService to the relays. */
export function relaySliceName(inferenceService: string): string {
  return `${inferenceService}-relay`;
}

/** The ClusterIP Service of an InferenceService has the InferenceService's name. */
export function serviceName(inferenceService: string): string {
  return inferenceService;
}

/** The ResourceClaimTemplate of the flavors of a service. Its content cannot be changed, so the name has a digest of it. */
export function claimTemplateName(service: string, digest: string): string {
  return `${service}-flavors-${digest}`;
}

/** Kubernetes adds up to 14 characters to it, and uses the result as a label value. */
const GROUP_NAME_MAX = 49;
const GROUP_SUFFIX = "-group";

/** The LeaderWorkerSet of an InferenceService. LeaderWorkerSet creates a Service of this name, so it differs from ours. */
export function groupName(inferenceService: string): string {
  const name = `${inferenceService}${GROUP_SUFFIX}`;
  if (name.length <= GROUP_NAME_MAX) return name;
  const suffix = `-${hash(inferenceService, HASH_DIGITS)}${GROUP_SUFFIX}`;
  return `${inferenceService.slice(0, GROUP_NAME_MAX - suffix.length)}${suffix}`;
}

/** The ControllerRevision that keeps an old template. */
export function revisionName(service: string, revision: string): string {
  return `${service}-${revision}`;
}
