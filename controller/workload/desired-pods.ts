/**
 * The pods of a service stay as they are until their user changes something, whatever a newer controller would make of the
 * same wish: other pinned images, probes, scripts, its own image. The Deployment keeps the template as it was rendered, and a
 * digest of the wish that it was rendered for. Pure.
 */

import type { Runtime } from "../../src/api/fields/runtimes.ts";
import {
  ANNOTATION_RENDERED_FOR,
  ANNOTATION_RESTARTED_AT,
  ANNOTATION_TEMPLATE,
} from "../../src/api/group.ts";
import type { InferenceService, InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { contentOf } from "../../src/capacity/template.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import type { Deployment, PodTemplate } from "../../src/kube/workload-objects.ts";
import { canonicalJson, hash } from "../../src/util/hash.ts";
import type { MountedWeights, NodeChoice } from "./contract.ts";
import { podRevisionOf, withRevision } from "./revision.ts";

/** What a user, or the world, decides about the template of a service's pods. */
export interface DesiredPods {
  readonly service: InferenceService;
  /** The service's own Model first; each with where its files are. */
  readonly models: readonly { readonly model: Model; readonly weights: MountedWeights | undefined }[];
  readonly nodes?: NodeChoice | undefined;
}

/** Fields of the spec that no template holds: a change of one of them must not bring in newer defaults. */
const AROUND_PODS: readonly (keyof InferenceServiceSpec)[] = [
  "replicas",
  "suspend",
  "evictionProtection",
  "hostLostSeconds",
  "placement",
  "revisionHistoryLimit",
  "endpoint",
  "slo",
  "autoscaling",
  "rolloutPolicy",
  "maxPodLifetimeSeconds",
  "maxPodLifetimeIdleTimeoutSeconds",
  "modelRevision",
];

/** The same of Models. */
const NOT_IN_PODS: readonly (keyof Model["spec"])[] = [
  "prefetch",
  "prefetchHosts",
  "prefetchTolerations",
  "refreshPolicy",
];

/** Equal digests: the pods that exist are what is asked for. A field that is not known here counts. */
export function desiredPodsDigest({ service, models, nodes }: DesiredPods): string {
  const { rollout, ...spec } = service.spec;
  return hash(
    canonicalJson({
      spec: without(spec, AROUND_PODS),
      drainSeconds: rollout.drainSeconds,
      restartedAt: service.metadata.annotations?.[ANNOTATION_RESTARTED_AT],
      models: models.map(({ model, weights }) => ({
        name: model.metadata.name,
        spec: without(model.spec, NOT_IN_PODS),
        claimName: weights?.claimName,
        folder: weights?.folder,
        // Facts of the content, and nothing that is computed from it.
        files: model.status?.files,
        sizeBytes: model.status?.sizeBytes,
        content: contentOf(model.status?.pinned),
      })),
      nodes,
    }),
    32,
  );
}

function without(spec: object, fields: readonly string[]): object {
  return Object.fromEntries(Object.entries(spec).filter(([field]) => !fields.includes(field)));
}

/** Of the template that the Deployment has; undefined where it was rendered for another wish. */
export function keptRuntime(live: Deployment | undefined, digest: string): Runtime | undefined {
  const [renderedFor, runtime] = live?.metadata.annotations?.[ANNOTATION_RENDERED_FOR]?.split(" ") ?? [];
  if (renderedFor !== digest) return undefined;
  return ENGINES.find((entry) => entry.runtime === runtime)?.runtime;
}

/** The API server takes 256 KiB of annotations; a larger template is rendered again by each controller. */
const TEMPLATE_MAX = 131_072;

/** `rendered`, with the template of `live` where that was rendered for the same wish. */
export function keepTemplate(
  rendered: Deployment,
  live: Deployment | undefined,
  { digest, runtime }: { readonly digest: string; readonly runtime: Runtime },
): Deployment {
  const kept = keptRuntime(live, digest) === undefined ? undefined : templateOf(live, rendered);
  const template = kept ?? rendered.spec.template;
  const text = JSON.stringify(template);
  const annotations = {
    ...rendered.metadata.annotations,
    [ANNOTATION_RENDERED_FOR]: `${digest} ${runtime}`,
    ...(text.length > TEMPLATE_MAX ? {} : { [ANNOTATION_TEMPLATE]: text }),
  };
  return {
    ...rendered,
    metadata: { ...rendered.metadata, annotations },
    spec: { ...rendered.spec, template },
  };
}

/** As it was rendered; undefined where it is the same as now, or where someone has edited it or the annotation. */
function templateOf(live: Deployment | undefined, { spec }: Deployment): PodTemplate | undefined {
  const revision = live && podRevisionOf(live.spec.template);
  if (live === undefined || revision === undefined || revision === podRevisionOf(spec.template))
    return undefined;
  const text = live.metadata.annotations?.[ANNOTATION_TEMPLATE] ?? "";
  if (text.length > TEMPLATE_MAX) return undefined;
  try {
    const template: PodTemplate = JSON.parse(text);
    return podRevisionOf(template) === revision && isAsRendered(template) ? template : undefined;
  } catch {
    return undefined;
  }
}

function isAsRendered(template: PodTemplate): boolean {
  return podRevisionOf(withRevision(template)) === podRevisionOf(template);
}
