/** The revisions of a service, as data. Pure. */
import { LABEL_REVISION } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { parseRevisionData, type RevisionData } from "../../src/capacity/revision-data.ts";
import { shortRevision } from "../../src/capacity/template.ts";
import type { ControllerRevision } from "../../src/kube/objects.ts";
import { changesBetween, type SpecChange } from "./changes.ts";

export interface HistoryEntry {
  readonly revision: number;
  /** Hash that replicas carry as a label. */
  readonly hash: string;
  readonly createdAt: string | undefined;
  readonly isNewest: boolean;
  /** The revision that serves, as the controller says. */
  readonly isServing: boolean;
  /** Undefined where the ControllerRevision cannot be understood. */
  readonly data: RevisionData | undefined;
  /** Against the revision before; empty for the first, and where only the Model changed. */
  readonly changes: readonly SpecChange[];
}

/** Oldest first. */
export function historyOf(
  service: InferenceService,
  revisions: readonly ControllerRevision[],
): readonly HistoryEntry[] {
  const sorted = [...revisions].sort((a, b) => a.revision - b.revision);
  const serving = service.status?.currentRevision;
  const parsed = sorted.map(({ data }) => parseRevisionData(data));
  return sorted.map(({ metadata, revision }, index) => {
    const hash = metadata.labels?.[LABEL_REVISION] ?? "";
    const data = parsed[index];
    const before = parsed[index - 1];
    return {
      revision,
      hash,
      data,
      createdAt: metadata.creationTimestamp,
      isNewest: index === sorted.length - 1,
      isServing: serving !== undefined && serving === hash,
      changes: data === undefined || before === undefined ? [] : changesOf(before, data),
    };
  });
}

/** The spec's fields and, since a new revision comes of that too, the Model's source and what it had. */
function changesOf(before: RevisionData, after: RevisionData): readonly SpecChange[] {
  const weights = ({ model: { name, source, revision } }: RevisionData) => ({
    [`Model ${name} source`]: source,
    [`Model ${name} content`]: revision === undefined ? undefined : shortRevision(revision),
  });
  const models =
    before.model.name === after.model.name ? changesBetween(weights(before), weights(after)) : [];
  return [...changesBetween(before.spec, after.spec), ...models];
}
