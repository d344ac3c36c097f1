/** Plans the ControllerRevisions of a service, on hosts and in pods. The newest has the highest number; old ones serve rollbacks. Pure. */
import { LABEL_REVISION } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { revisionName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import { type RevisionData, type StoredBackend, storedBackend } from "../../../src/capacity/revision-data.ts";
import { revisionHistoryLimit } from "../../../src/capacity/template.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { versionGuards } from "./corrections.ts";
import type { ServiceStep } from "./steps.ts";

export interface RevisionsInput {
  readonly service: InferenceService;
  /** Existing revisions. */
  readonly revisions: readonly ControllerRevision[];
  /** Hash of the current spec. */
  readonly hash: string;
  /** The content of the BackendRuntime in use. */
  readonly backend: StoredBackend | undefined;
  readonly data: () => RevisionData;
  /** Hashes of running replicas or pods. */
  readonly running: readonly (string | undefined)[];
}

/**
 * Keeps the running revisions and the last one that served, even beyond the limit, because a stopped rollout may need them. The
 * data of a ControllerRevision cannot be changed: if other content renders the same template, it is removed, and the next pass
 * creates it again.
 */
export function stepsOfRevisions(input: RevisionsInput): ServiceStep[] {
  const { service, revisions, hash, backend, data, running } = input;
  const newest = Math.max(0, ...revisions.map(({ revision }) => revision));
  const current = revisions.find((one) => hashOfRevision(one) === hash);
  const inUse = new Set([hash, service.status?.currentRevision, ...running]);
  const steps: ServiceStep[] = [];
  if (current === undefined) {
    const object = desiredRevision(service, { hash, data: data(), revision: newest + 1 });
    steps.push({ do: "create", what: "revisions", object });
  } else if (!isRenderedFrom(current, backend)) {
    steps.push({
      do: "remove",
      what: "revisions",
      object: current,
      because: "the BackendRuntime has changed",
    });
  } else if (current.revision < newest) {
    const operations = [
      ...versionGuards(current.metadata),
      { op: "add" as const, path: "/revision", value: newest + 1 },
    ];
    steps.push({ do: "patch", what: "revisions", object: current, operations, because: "in use again" });
  }
  const old = revisions
    .filter((one) => !inUse.has(hashOfRevision(one)))
    .sort((a, b) => b.revision - a.revision);
  const because = "more old revisions than revisionHistoryLimit";
  for (const object of old.slice(revisionHistoryLimit(service.spec))) {
    steps.push({ do: "remove", what: "revisions", object, because });
  }
  return steps;
}

function isRenderedFrom(one: ControllerRevision, backend: StoredBackend | undefined): boolean {
  const stored = storedBackend(one);
  return stored?.revision === backend?.revision && stored?.request === backend?.request;
}

export function hashOfRevision({ metadata }: ControllerRevision): string {
  return metadata.labels?.[LABEL_REVISION] ?? "";
}

export function desiredRevision(
  service: InferenceService,
  { hash, data, revision }: { readonly hash: string; readonly data: RevisionData; readonly revision: number },
): ControllerRevision {
  return {
    metadata: {
      ...ownedObjectRef(service, revisionName(service.metadata.name, hash)),
      labels: { ...ownerLabels(service), [LABEL_REVISION]: hash, ...MANAGED_BY },
    },
    revision,
    data,
  };
}
