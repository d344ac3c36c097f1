/** The hash of a pod template, which the template and its pods carry as a label. Pure. */
import { LABEL_REVISION } from "../../../src/api/group.ts";
import type { PodTemplate } from "../../../src/kube/workload-objects.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";

export function podRevisionOf({ metadata }: Pick<PodTemplate, "metadata">): string | undefined {
  return metadata?.labels?.[LABEL_REVISION];
}

/** Labels the templates of one object with the hash of all of them. */
export function withCommonRevision<T extends Readonly<Record<string, PodTemplate>>>(templates: T): T {
  const unlabeled = Object.entries(templates).map(([name, template]) => [name, withoutRevision(template)]);
  const revision = hash(canonicalJson(Object.fromEntries(unlabeled)));
  const labeled = Object.entries(templates).map(([name, template]) => [
    name,
    labeledWith(template, revision),
  ]);
  return Object.fromEntries(labeled) as T;
}

/** Labels a template with the hash of everything but the label. */
export function withRevision(template: PodTemplate): PodTemplate {
  return labeledWith(template, hash(canonicalJson(withoutRevision(template))));
}

function withoutRevision({ metadata, spec }: PodTemplate): PodTemplate {
  const { [LABEL_REVISION]: _, ...labels } = metadata?.labels ?? {};
  return { metadata: { ...metadata, labels }, spec };
}

function labeledWith(template: PodTemplate, revision: string): PodTemplate {
  const { metadata, spec } = withoutRevision(template);
  return { metadata: { ...metadata, labels: { ...metadata?.labels, [LABEL_REVISION]: revision } }, spec };
}
