/**
 * An upgrade of the controller must not restart the pods of a service, although a newer controller may render the same spec with
 * other pinned images, probes or scripts. The revision of the service therefore stores the template as it was rendered and a digest
 * of the desired state that it was rendered for. A new template is used only once the digest differs. Pure.
 */

import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import { ANNOTATION_RENDERED_FOR, ANNOTATION_RESTARTED_AT } from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import { sortedNames } from "../../../src/api/inference-service/model-names.ts";
import {
  modelNamesOf,
  type Naming,
  speculativeDecodingOf,
} from "../../../src/api/inference-service/roles.ts";
import type { Model } from "../../../src/api/model.ts";
import { newestRevision, parseRevisionData } from "../../../src/capacity/revision-data.ts";
import { revisionContentOf } from "../../../src/capacity/template.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import type { PodTemplate } from "../../../src/kube/workload-objects.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import type { MountedWeights, PodFlavors } from "./contract.ts";
import { hasGate } from "./pod.ts";
import { queueAnnotations, queueLabels } from "./queue-labels.ts";

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
  // Pods keep the label of an earlier family until another change replaces them.
  "familyName",
  "ownedBy",
  "createdAt",
  "flavors",
  "prefetch",
  "prefetchHosts",
  "prefetchTolerations",
  "refreshPolicy",
];

/** If the digests are equal, the existing pods match the desired state. Fields that are unknown here count as changes. */
export function desiredPodsDigest({ service, models, flavors }: DesiredPods): string {
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
        content: revisionContentOf(model.status?.pinned),
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

/** A template of pods as it was rendered, or those of leader and workers of a group. */
export type Templates = Readonly<Record<string, PodTemplate>>;

/** Templates that were rendered earlier, and the runtime that was chosen for them. */
export interface RenderedPods {
  readonly runtime: Runtime;
  readonly templates: Templates;
}

/** What the newest of the service's revisions was rendered to, if that was for the same desired state. */
export function renderedFor(
  digest: string,
  revisions: readonly ControllerRevision[],
): RenderedPods | undefined {
  const newest = newestRevision(revisions, "Pods");
  if (newest?.metadata.annotations?.[ANNOTATION_RENDERED_FOR] !== digest) return undefined;
  return parseRevisionData(newest.data)?.pods;
}
