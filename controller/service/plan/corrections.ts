/** JSON patches that bring an existing object to what is wanted, field by field, guarded by uid and resourceVersion. Pure. */
import { ANNOTATION_ADDRESSES } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ObjectMeta } from "../../../src/api/metadata.ts";
import { canonicalJson } from "../../../src/hash.ts";
import type { EndpointSlice, Service, ServicePort } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";

/** Nothing is changed that another writer has changed since, and nothing of a later object of that name. */
export function guards({ uid, resourceVersion }: ObjectMeta): JsonPatchOp[] {
  return [
    { op: "test", path: "/metadata/uid", value: uid },
    { op: "test", path: "/metadata/resourceVersion", value: resourceVersion },
  ];
}

/** Empty when nothing differs. */
export function correctReplica(
  { metadata, spec }: InferenceReplica,
  wanted: Partial<InferenceReplica["spec"]>,
): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [];
  for (const [field, value] of Object.entries(wanted)) {
    const now = spec[field as keyof typeof spec];
    if (!isSame(now, value)) changes.push({ op: "add", path: `/spec/${field}`, value });
  }
  return guarded(metadata, changes);
}

export function correctKubeService({ metadata, spec }: Service, wanted: Service): JsonPatchOp[] {
  const changes: JsonPatchOp[] = [...correctLabels(metadata, wanted.metadata)];
  const [port] = wanted.spec?.ports ?? [];
  const [portNow, ...further] = spec?.ports ?? [];
  const typeChanges = spec?.type !== wanted.spec?.type;
  if (typeChanges) changes.push({ op: "add", path: "/spec/type", value: wanted.spec?.type });
  if (port !== undefined && (typeChanges || further.length > 0 || !isPort(portNow, port))) {
    changes.push({ op: "add", path: "/spec/ports", value: [keepNodePort(port, portNow, wanted)] });
  }
  if (!isSame(spec?.selector, wanted.spec?.selector)) {
    changes.push({ op: "add", path: "/spec/selector", value: wanted.spec?.selector });
  }
  return guarded(metadata, changes);
}

/** Labels and the allowed addresses; the address family of a slice cannot change. */
export function correctSlice({ metadata }: EndpointSlice, wanted: EndpointSlice): JsonPatchOp[] {
  const changes = [...correctLabels(metadata, wanted.metadata)];
  const value = wanted.metadata.annotations?.[ANNOTATION_ADDRESSES];
  if (metadata.annotations?.[ANNOTATION_ADDRESSES] !== value) {
    if (metadata.annotations === undefined)
      changes.push({ op: "add", path: "/metadata/annotations", value: {} });
    changes.push({ op: "add", path: `/metadata/annotations/${escaped(ANNOTATION_ADDRESSES)}`, value });
  }
  return guarded(metadata, changes);
}

function correctLabels(now: ObjectMeta, wanted: ObjectMeta): JsonPatchOp[] {
  return Object.entries(wanted.labels ?? {})
    .filter(([name, value]) => now.labels?.[name] !== value)
    .map(([name, value]) => ({ op: "add" as const, path: `/metadata/labels/${escaped(name)}`, value }));
}

function isPort(now: ServicePort | undefined, wanted: ServicePort): boolean {
  return (
    now?.name === wanted.name &&
    now?.port === wanted.port &&
    (wanted.nodePort === undefined || now?.nodePort === wanted.nodePort)
  );
}

/** A node port that the cluster chose stays when the spec names none: clients may know it. */
function keepNodePort(port: ServicePort, now: ServicePort | undefined, wanted: Service): ServicePort {
  const isOnNodes = wanted.spec?.type !== "ClusterIP";
  if (port.nodePort !== undefined || !isOnNodes || now?.nodePort === undefined) return port;
  return { ...port, nodePort: now.nodePort };
}

function guarded(metadata: ObjectMeta, changes: readonly JsonPatchOp[]): JsonPatchOp[] {
  return changes.length === 0 ? [] : [...guards(metadata), ...changes];
}

function isSame(now: unknown, wanted: unknown): boolean {
  return canonicalJson(now ?? null) === canonicalJson(wanted ?? null);
}

function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
