/** The hash of a pod template, which the template and its pods carry as a label. Pure. */
import { LABEL_REVISION } from "../../src/api/group.ts";
import type { PodTemplate } from "../../src/kube/workload-objects.ts";
import { canonicalJson, hash } from "../../src/util/hash.ts";

export function podRevisionOf({ metadata }: Pick<PodTemplate, "metadata">): string | undefined {
  return metadata?.labels?.[LABEL_REVISION];
}

/** Labels a template with the hash of everything but the label. */
export function withRevision({ metadata, spec }: PodTemplate): PodTemplate {
  const { [LABEL_REVISION]: _, ...labels } = metadata?.labels ?? {};
  const revision = hash(canonicalJson({ metadata: { ...metadata, labels }, spec }));
  return { metadata: { ...metadata, labels: { ...labels, [LABEL_REVISION]: revision } }, spec };
}
