/** What a ControllerRevision keeps of a revision: enough to run it again, and to write it back into the spec. */
import { z } from "zod";
import { engineFields } from "../api/engine-settings.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import { inferenceReplicaSpecSchema } from "../api/inference-replica.ts";
import type { InferenceService, InferenceServiceSpec } from "../api/inference-service/index.ts";
import { podFields } from "../api/inference-service/pods.ts";
import type { Model } from "../api/model.ts";
import { ENGINES } from "../engines/registry.ts";
import { contentOf, type TemplateWithoutHost } from "./template.ts";

/** The fields of InferenceService.spec that decide on the revision; a change of any other restarts nothing. */
export const REVISION_SPEC_FIELDS: readonly (keyof InferenceServiceSpec)[] = [
  "modelRef",
  "runtime",
  "mode",
  "auth",
  "speculativeDecoding",
  "loraAdapters",
  ...(Object.keys(engineFields) as (keyof typeof engineFields)[]),
];

/** Of the fields of pods, those that change what surrounds the pods, but not the pods. */
const AROUND_PODS = [
  "autoscaling",
  "rolloutPolicy",
  "maxPodLifetimeSeconds",
  "maxPodLifetimeIdleTimeoutSeconds",
];

const POD_SPEC_FIELDS = [
  ...(Object.keys(podFields) as (keyof InferenceServiceSpec)[]).filter(
    (field) => !AROUND_PODS.includes(field),
  ),
  "inFlightProbe",
  "tty",
  "priority",
] as const;

/** The same with those of the runtime, or of pods. */
function revisionSpecFields(of: unknown, on: Side): typeof REVISION_SPEC_FIELDS {
  if (on === "Pods") return [...REVISION_SPEC_FIELDS, ...POD_SPEC_FIELDS];
  const entry = ENGINES.find(({ runtime }) => runtime === of);
  return [...REVISION_SPEC_FIELDS, ...(entry?.revisionFields ?? [])];
}

type Side = "Hosts" | "Pods";

/** Parts of `endpoint`, of which the rest restarts nothing. */
const REVISION_ENDPOINT_FIELDS = ["gate", "tls"] as const;

/**
 * What of a spec, or of kept revision data, decides on the revision: `endpoint` holds those parts alone. `runtime` is the
 * chosen one where the spec names none.
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

/** `endpoint` as it becomes when these parts are written back. */
export function endpointWith(
  endpoint: Readonly<Record<string, unknown>>,
  parts: unknown,
): Readonly<Record<string, unknown>> {
  const kept = Object.entries(endpoint).filter(
    ([field]) => !REVISION_ENDPOINT_FIELDS.some((part) => part === field),
  );
  return { ...Object.fromEntries(kept), ...(parts as object | undefined) };
}

const revisionDataSchema = z.object({
  /** Of replicas on hosts. Pods are made again from the spec alone. */
  template: inferenceReplicaSpecSchema.shape.template.omit({ hostName: true }).optional(),
  /** Those of REVISION_SPEC_FIELDS that were set; going back removes the others. */
  spec: z.record(z.string(), z.unknown()),
  /** The Model as it was named, and what its weights were then: going back does not change a Model. */
  model: z.object({ name: z.string(), source: z.string(), revision: z.string().optional() }),
});

export type RevisionData = z.output<typeof revisionDataSchema>;

export function toRevisionData(
  { spec }: InferenceService,
  template: TemplateWithoutHost,
  model: Model,
): RevisionData {
  return {
    template,
    spec: revisionSpec(spec, template.runtime),
    model: modelData(model, contentOf(template.model)),
  };
}

export function toPodsRevisionData({ spec }: InferenceService, runtime: Runtime, model: Model): RevisionData {
  return {
    spec: revisionSpec(spec, runtime, "Pods"),
    model: modelData(model, contentOf(model.status?.pinned)),
  };
}

function modelData({ metadata, spec }: Model, revision: string | undefined): RevisionData["model"] {
  return { name: metadata.name, source: spec.source, revision };
}

/** What of the spec a kept revision stands for. */
export function keptSpec({ spec, template }: RevisionData): Record<string, unknown> {
  return template === undefined
    ? revisionSpec(spec, undefined, "Pods")
    : revisionSpec(spec, template.runtime);
}

/** Undefined where it is not of this form: nothing can be taken from it then. */
export function parseRevisionData(data: unknown): RevisionData | undefined {
  return revisionDataSchema.safeParse(data).data;
}
