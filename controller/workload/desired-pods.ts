/**
 * An upgrade of the controller must not restart the pods of a service, although a newer controller may render the same spec with
 * other pinned images, probes or scripts. The Deployment therefore stores the template as it was rendered and a digest of the
 * desired state that it was rendered for. A new template is used only once the digest differs. Pure.
 */

import type { Runtime } from "../../src/api/fields/runtimes.ts";
import {
  ANNOTATION_RENDERED_FOR,
  ANNOTATION_RESTARTED_AT,
  ANNOTATION_TEMPLATE,
} from "../../src/api/group.ts";
import type { InferenceService, InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import { sortedNames } from "../../src/api/inference-service/model-names.ts";
import { modelNamesOf, type Naming, speculativeDecodingOf } from "../../src/api/inference-service/roles.ts";
import type { Model } from "../../src/api/model.ts";
import { contentOf } from "../../src/capacity/template.ts";
import { ENGINES, engineDescription } from "../../src/engines/registry.ts";
import type { Deployment, LeaderWorkerSet, PodTemplate } from "../../src/kube/workload-objects.ts";
import { defined } from "../../src/util/defined.ts";
import { canonicalJson, hash } from "../../src/util/hash.ts";
import type { MountedWeights, PodFlavors } from "./contract.ts";
import { hasGate } from "./pod.ts";
import { queueAnnotations, queueLabels } from "./queue-labels.ts";
import { podRevisionOf, withCommonRevision, withRevision } from "./revision.ts";

/** The user's settings and the facts that determine the template of a service's pods. */
export interface DesiredPods {
  readonly service: InferenceService;
  /** The service's main Model first, each with the location of its files. */
  readonly models: readonly { readonly model: Model; readonly weights?: MountedWeights | undefined }[];
  readonly flavors?: PodFlavors | undefined;
}

/** Fields of the spec that do not affect the template. Changing one of them must not bring in newer defaults. */
const SPEC_FIELDS_NOT_IN_PODS: readonly (keyof InferenceServiceSpec)[] = [
  "replicas",
  "suspend",
  "evictionProtection",
  "hostLostSeconds",
  "placement",
  "revisionHistoryLimit",
  // Those in use are part of the digest on their own.
  "flavors",
  "endpoint",
  "slo",
  "autoscaling",
  "rolloutPolicy",
  "maxPodLifetimeSeconds",
  "maxPodLifetimeIdleTimeoutSeconds",
  "modelRevision",
];

/** Fields of a Model's spec that do not affect the template. */
const MODEL_FIELDS_NOT_IN_PODS: readonly (keyof Model["spec"])[] = [
  "flavors",
  "prefetch",
  "prefetchHosts",
  "prefetchTolerations",
  "refreshPolicy",
];

/** If the digests are equal, the existing pods match the desired state. Fields that are unknown here count as changes. */
export function desiredPodsDigest(desired: DesiredPods): string {
  const { service, models, flavors } = desired;
  const { rollout, ...spec } = service.spec;
  return hash(
    canonicalJson({
      spec: { ...without(spec, SPEC_FIELDS_NOT_IN_PODS), ...namingOf(spec) },
      modelNames: checkedNames(spec),
      drainSeconds: rollout.drainSeconds,
      restartedAt: service.metadata.annotations?.[ANNOTATION_RESTARTED_AT],
      queue: queueLabels(service),
      topology: queueAnnotations(service),
      models: models.map(({ model, weights }) => ({
        name: model.metadata.name,
        spec: without(model.spec, MODEL_FIELDS_NOT_IN_PODS),
        claimName: weights?.claimName,
        folder: weights?.folder,
        // Only facts about the content: values computed from it could change with the controller's version.
        files: model.status?.files,
        sizeBytes: model.status?.sizeBytes,
        content: contentOf(model.status?.pinned),
      })),
      isGated: hasGate(service.spec),
      flavors,
    }),
    32,
  );
}

/** Names that must be in the arguments of the engine. Undefined if there are none. */
function checkedNames(
  spec: Pick<InferenceServiceSpec, "runtime" | "endpoint">,
): readonly string[] | undefined {
  const pod = spec.runtime && engineDescription(spec.runtime)?.pod;
  const names = pod === undefined || pod.checksModelName === true ? sortedNames(spec) : [];
  return names.length === 0 ? undefined : names;
}

/** Equal for both ways to name the same Models, for any order of modelRefs, and with and without a default. */
function namingOf(spec: Naming) {
  const { main, draft, projector, adapters } = modelNamesOf(spec);
  const { speculativeDecoding } = spec;
  const loraAdapters = spec.loraAdapters?.map(({ modelRef, scale = 1 }) => ({ modelRef, scale }));
  const named = adapters.filter(({ scale }) => scale === undefined);
  return {
    modelRef: main.name,
    modelRefs: undefined,
    speculativeDecoding: draft && { ...speculativeDecodingOf(spec), draftModelRef: draft.name },
    ...(draft === undefined ? { speculativeDecoding } : {}),
    projector: projector?.name,
    loraAdapters,
    served: named.length === 0 ? undefined : named.map(({ name }) => name),
  };
}

function without(spec: object, fields: readonly string[]): object {
  return Object.fromEntries(Object.entries(spec).filter(([field]) => !fields.includes(field)));
}

type Annotated = Pick<Deployment, "metadata">;

/** Runtime of the current template of a Deployment or a group; undefined if the template was rendered for another desired state. */
export function currentRuntime(live: Annotated | undefined, digest: string): Runtime | undefined {
  const [renderedFor, runtime] = live?.metadata.annotations?.[ANNOTATION_RENDERED_FOR]?.split(" ") ?? [];
  if (renderedFor !== digest) return undefined;
  return ENGINES.find((entry) => entry.runtime === runtime)?.runtime;
}

/** The API server accepts 256 KiB of annotations. A larger template is not stored, and each controller renders it again. */
const TEMPLATE_MAX = 131_072;

/** The desired state, as it is stored with a template. */
export interface RenderedFor {
  readonly digest: string;
  readonly runtime: Runtime;
}

/** Returns `rendered` with the template of `live` if that was rendered for the same desired state. */
export function keepTemplate(
  rendered: Deployment,
  live: Deployment | undefined,
  desired: RenderedFor,
): Deployment {
  const { metadata, spec } = rendered;
  const { templates, annotations } = keep(
    { rendered: { template: spec.template }, live, liveTemplates: live && { template: live.spec.template } },
    ({ template }) => ({ template: withRevision(template) }),
    desired,
  );
  return {
    ...rendered,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
    spec: { ...spec, ...templates },
  };
}

/** The same for the templates of a group. */
export function keepGroupTemplates(
  rendered: LeaderWorkerSet,
  live: LeaderWorkerSet | undefined,
  desired: RenderedFor,
): LeaderWorkerSet {
  const { metadata, spec } = rendered;
  const { templates, annotations } = keep(
    { rendered: templatesOf(rendered), live, liveTemplates: live && templatesOf(live) },
    withCommonRevision,
    desired,
  );
  return {
    ...rendered,
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
    spec: { ...spec, leaderWorkerTemplate: { ...spec.leaderWorkerTemplate, ...templates } },
  };
}

function templatesOf({ spec: { leaderWorkerTemplate } }: LeaderWorkerSet) {
  const { leaderTemplate, workerTemplate } = leaderWorkerTemplate;
  return { leaderTemplate, workerTemplate };
}

type Templates = Readonly<Record<string, PodTemplate>>;

interface Renderings<T extends Templates> {
  readonly rendered: T;
  readonly live: Annotated | undefined;
  readonly liveTemplates: T | undefined;
}

function keep<T extends Templates>(
  renderings: Renderings<T>,
  withLabels: (templates: T) => T,
  { digest, runtime }: RenderedFor,
) {
  const { rendered, live } = renderings;
  const stored =
    currentRuntime(live, digest) === undefined ? undefined : storedTemplates(renderings, withLabels);
  const templates = stored ?? rendered;
  const text = JSON.stringify(templates);
  return {
    templates,
    annotations: defined<Record<string, string>>({
      [ANNOTATION_RENDERED_FOR]: `${digest} ${runtime}`,
      [ANNOTATION_TEMPLATE]: text.length > TEMPLATE_MAX ? undefined : text,
    }),
  };
}

/** The templates in the annotation; undefined if they equal the rendered ones, or if a user edited them or the annotation. */
function storedTemplates<T extends Templates>(
  { rendered, live, liveTemplates }: Renderings<T>,
  withLabels: (templates: T) => T,
): T | undefined {
  const revision = liveTemplates && commonRevision(liveTemplates);
  if (live === undefined || revision === undefined || revision === commonRevision(rendered)) return undefined;
  const text = live.metadata.annotations?.[ANNOTATION_TEMPLATE] ?? "";
  if (text.length > TEMPLATE_MAX) return undefined;
  try {
    const templates: T = JSON.parse(text);
    const isAsRendered = commonRevision(withLabels(templates)) === revision;
    return commonRevision(templates) === revision && isAsRendered ? templates : undefined;
  } catch {
    return undefined;
  }
}

/** Undefined if the templates have no revision, or different ones. */
function commonRevision(templates: Templates): string | undefined {
  const revisions = new Set(Object.values(templates).map(podRevisionOf));
  return revisions.size === 1 ? [...revisions][0] : undefined;
}
