/** The data of a revision in a ControllerRevision: enough to run it again, and to restore the spec. */
import { z } from "zod";
import { backendRuntimeSchema } from "../api/backend-runtime.ts";
import { engineFields } from "../api/engine-settings.ts";
import { runtimeSchema } from "../api/fields/runtime-fields.ts";
import { inferenceReplicaSpecSchema } from "../api/inference-replica.ts";
import type { InferenceService, InferenceServiceSpec } from "../api/inference-service/index.ts";
import { podFields } from "../api/inference-service/pods.ts";
import type { Model } from "../api/model.ts";
import { ENGINES } from "../engines/registry.ts";
import type { ControllerRevision } from "../kube/objects.ts";
import type { PodTemplate } from "../kube/workload-objects.ts";
import { revisionContentOf, type TemplateWithoutHost } from "./template.ts";

/** Fields of InferenceService.spec that determine the revision. A change of any other field restarts nothing. */
export const REVISION_SPEC_FIELDS: readonly (keyof InferenceServiceSpec)[] = [
  "modelRef",
  "modelRefs",
  "runtime",
  "backendRuntime",
  "mode",
  "auth",
  "speculativeDecoding",
  "loraAdapters",
  ...(Object.keys(engineFields) as (keyof typeof engineFields)[]),
];

/** Pod fields that change objects around the pods, but not the pods. */
const AROUND_PODS = ["rolloutPolicy", "maxPodLifetimeSeconds", "maxPodLifetimeIdleTimeoutSeconds"];

const POD_SPEC_FIELDS = [
  ...(Object.keys(podFields) as (keyof InferenceServiceSpec)[]).filter(
    (field) => !AROUND_PODS.includes(field),
  ),
  "inFlightProbe",
  "tty",
  "priority",
] as const;

/** Adds the fields of the runtime, or of pods. */
function revisionSpecFields(of: unknown, on: Side): typeof REVISION_SPEC_FIELDS {
  if (on === "Pods") return [...REVISION_SPEC_FIELDS, ...POD_SPEC_FIELDS];
  const entry = ENGINES.find(({ runtime }) => runtime === of);
  return [...REVISION_SPEC_FIELDS, ...(entry?.revisionFields ?? [])];
}

export type Side = "Hosts" | "Pods";

/** Parts of `endpoint` that determine the revision. */
const REVISION_ENDPOINT_FIELDS = ["gate", "tls"] as const;

/**
 * The parts of a spec, or of stored revision data, that determine the revision. `runtime` is the chosen runtime if the spec
 * names none.
 */
export function revisionSpec(
  spec: Readonly<Record<string, unknown>>,
  runtime: unknown = spec.runtime,
  on: Side = "Hosts",
): Record<string, unknown> {
  const set = revisionSpecFields(runtime, on).filter((field) => spec[field] !== undefined);
  const endpoint = (spec.endpoint ?? {}) as Readonly<Record<string, unknown>>;
  const parts = REVISION_ENDPOINT_FIELDS.filter((field) => endpoint[field] !== undefined);
  return {
    ...Object.fromEntries(set.map((field) => [field, spec[field]])),
    ...(parts.length === 0
      ? {}
      : { endpoint: Object.fromEntries(parts.map((part) => [part, endpoint[part]])) }),
  };
}

/** `endpoint` with these parts restored. */
export function endpointWith(
  endpoint: Readonly<Record<string, unknown>>,
  parts: unknown,
): Readonly<Record<string, unknown>> {
  const others = Object.entries(endpoint).filter(
    ([field]) => !REVISION_ENDPOINT_FIELDS.some((part) => part === field),
  );
  return { ...Object.fromEntries(others), ...(parts as object | undefined) };
}

const storedBackendSchema = z.object({
  name: z.string(),
  /** Digest of the content. */
  revision: z.string(),
  spec: backendRuntimeSchema.shape.spec,
});

/** The content of the BackendRuntime that a revision was rendered with. */
export type StoredBackend = Readonly<z.output<typeof storedBackendSchema>>;

const revisionDataSchema = z.object({
  /** Template of replicas on hosts. */
  template: inferenceReplicaSpecSchema.shape.template.omit({ hostName: true }).optional(),
  /** Templates of pods as they were rendered, by the field of the workload. */
  pods: z
    .object({ runtime: runtimeSchema, templates: z.record(z.string(), z.custom<PodTemplate>()) })
    .optional(),
  /** The fields of REVISION_SPEC_FIELDS that were set; a rollback removes the others. */
  spec: z.record(z.string(), z.unknown()),
  /** Name, source and content of the Model. A rollback does not change a Model. */
  model: z.object({ name: z.string(), source: z.string(), revision: z.string().optional() }),
  backend: storedBackendSchema.optional(),
});

export type RevisionData = z.output<typeof revisionDataSchema>;

/** The inputs of a rendered revision. */
interface RevisionSource {
  readonly service: InferenceService;
  readonly model: Model;
  readonly backend: StoredBackend | undefined;
}

export function toRevisionData(source: RevisionSource, template: TemplateWithoutHost): RevisionData {
  const { service, model, backend } = source;
  return {
    template,
    spec: revisionSpec(service.spec, template.runtime),
    model: modelData(model, revisionContentOf(template.model)),
    backend: backend && dataOf(backend),
  };
}

export function toPodsRevisionData(
  source: RevisionSource,
  { runtime, templates }: NonNullable<RevisionData["pods"]>,
): RevisionData {
  const { service, model, backend } = source;
  return {
    pods: { runtime, templates },
    spec: revisionSpec(service.spec, runtime, "Pods"),
    model: modelData(model, revisionContentOf(model.status?.pinned)),
    backend: backend && dataOf(backend),
  };
}

function dataOf({ name, revision, spec }: StoredBackend): StoredBackend {
  return { name, revision, spec };
}

function modelData({ metadata, spec }: Model, revision: string | undefined): RevisionData["model"] {
  return { name: metadata.name, source: spec.source, revision };
}

/** The parts of the spec in a stored revision. */
export function storedSpec({ spec, template }: RevisionData): Record<string, unknown> {
  return template === undefined
    ? revisionSpec(spec, undefined, "Pods")
    : revisionSpec(spec, template.runtime);
}

/** Undefined if the data is invalid. */
export function parseRevisionData(data: unknown): RevisionData | undefined {
  return revisionDataSchema.safeParse(data).data;
}

/** Revisions of the service on one side; with placement.on Auto it has both. */
export function revisionsOn(
  revisions: readonly ControllerRevision[],
  side: Side,
): readonly ControllerRevision[] {
  return revisions.filter((one) => sideOf(one) === side);
}

/** Only those of hosts have a template of replicas. */
export function sideOf({ data }: ControllerRevision): Side {
  return typeof data === "object" && data !== null && "template" in data ? "Hosts" : "Pods";
}

/** The current or last rendering of the service. */
export function newestRevision(
  revisions: readonly ControllerRevision[],
  side: Side,
): ControllerRevision | undefined {
  return revisionsOn(revisions, side).reduce<ControllerRevision | undefined>(
    (newest, one) => (newest !== undefined && newest.revision > one.revision ? newest : one),
    undefined,
  );
}

const storedBackends = new WeakMap<ControllerRevision, StoredBackend | undefined>();

/** The same without the other data, parsed once: it is read in every pass over a service with a BackendRuntime. */
export function storedBackend(object: ControllerRevision): StoredBackend | undefined {
  if (!storedBackends.has(object))
    storedBackends.set(
      object,
      revisionDataSchema.pick({ backend: true }).safeParse(object.data).data?.backend,
    );
  return storedBackends.get(object);
}
