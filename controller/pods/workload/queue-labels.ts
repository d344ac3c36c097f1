/** What a service passes on to Kueue, which manages quota: labels and annotations of its Deployment and pods. Pure. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { ObjectMeta } from "../../../src/api/metadata.ts";

const PREFIX = "kueue.x-k8s.io/";
const QUEUE_NAME = `${PREFIX}queue-name`;
/** Kueue reads these from a Deployment and from its pods. */
const LABELS = [QUEUE_NAME, `${PREFIX}priority-class`];
/** Kueue reads these from pods. */
const ANNOTATIONS = ["required", "preferred", "unconstrained"].map(
  (rule) => `${PREFIX}podset-${rule}-topology`,
);

/** Undefined without any, so that other services are rendered as before. */
export function queueLabels({ metadata }: InferenceService): Record<string, string> | undefined {
  return chosen(metadata.labels, LABELS);
}

/** Rules for the topology of the pods. */
export function queueAnnotations({ metadata }: InferenceService): Record<string, string> | undefined {
  return chosen(metadata.annotations, ANNOTATIONS);
}

/** The LocalQueue of the pods. */
export function queueNameOf({ metadata, spec }: InferenceService): string | undefined {
  return metadata.labels?.[QUEUE_NAME] ?? spec.podLabels?.[QUEUE_NAME];
}

/** True for the scheduling gates that Kueue removes once it has admitted the pod. */
export function isQueueGate({ name }: { readonly name: string }): boolean {
  return name.startsWith(PREFIX);
}

function chosen(map: ObjectMeta["labels"] = {}, keys: readonly string[]): Record<string, string> | undefined {
  const entries = Object.entries(map).filter(([key]) => keys.includes(key));
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}
