/** The revisions of a service, as data. Pure. */
import { LABEL_REVISION } from "../../api/group.ts";
import type { InferenceService } from "../../api/inference-service/index.ts";
import type { ControllerRevision } from "../../kube/objects.ts";
import { parseRevisionData, type RevisionData, revisionsOn } from "../revision-data.ts";
import { shortRevision } from "../template.ts";
import { changesBetween, type SpecChange } from "./changes.ts";

export interface HistoryEntry {
  readonly revision: number;
  /** Hash that replicas carry as a label. */
  readonly hash: string;
  readonly createdAt: string | undefined;
  readonly isNewest: boolean;
  /** True for the revision that serves, according to the controller. */
  readonly isServing: boolean;
  /** Undefined if the ControllerRevision cannot be parsed. */
  readonly data: RevisionData | undefined;
  /** Changes since the previous revision. Empty for the first one. */
  readonly changes: readonly SpecChange[];
}

/** Oldest first. */
export function historyOf(
  service: InferenceService,
  revisions: readonly ControllerRevision[],
): readonly HistoryEntry[] {
  const sorted = [...reportedRevisions(service, revisions)].sort((a, b) => a.revision - b.revision);
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

/** With placement.on Auto, a change makes a revision on each side, and the status reports those of hosts. */
function reportedRevisions({ spec }: InferenceService, revisions: readonly ControllerRevision[]) {
  const onHosts = spec.placement.on === "Auto" ? revisionsOn(revisions, "Hosts") : [];
  return onHosts.length > 0 ? onHosts : revisions;
}

/** Includes the content of the Model and of the BackendRuntime, because their changes also create a revision. */
function changesOf(before: RevisionData, after: RevisionData): readonly SpecChange[] {
  const weights = ({ model: { name, source, revision } }: RevisionData) => ({
    [`Model ${name} source`]: source,
    [`Model ${name} content`]: revision === undefined ? undefined : shortRevision(revision),
  });
  const models =
    before.model.name === after.model.name ? changesBetween(weights(before), weights(after)) : [];
  const backend = ({ backend: used }: RevisionData) =>
    used && { [`BackendRuntime ${used.name} content`]: used.revision };
  const backends =
    before.backend?.name === after.backend?.name
      ? changesBetween(backend(before) ?? {}, backend(after) ?? {})
      : [];
  return [...changesBetween(before.spec, after.spec), ...models, ...backends];
}
