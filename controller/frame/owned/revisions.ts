/** Plans the ControllerRevisions of a service, on hosts and in pods. The newest has the highest number; old ones serve rollbacks. Pure. */
import {
  ANNOTATION_BACKEND_REQUEST,
  ANNOTATION_RENDERED_FOR,
  LABEL_REVISION,
} from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { revisionName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import {
  newestRevision,
  type RevisionData,
  revisionsOn,
  type Side,
  type StoredBackend,
  storedBackend,
} from "../../../src/capacity/revision-data.ts";
import { revisionHistoryLimit } from "../../../src/capacity/template.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import type { JsonPatchOp } from "../../../src/kube/types.ts";
import { defined } from "../../../src/util/defined.ts";
import { versionGuards } from "./corrections.ts";
import type { ServiceStep } from "./steps.ts";

/** Digests of the spec and of the restart request, as far as they concern each side. */
export type BackendRequests = Readonly<Record<Side, string>>;

/** The content of a BackendRuntime, and what took it. */
export interface RequestedBackend extends StoredBackend {
  readonly request: BackendRequests;
}

export interface RevisionsInput {
  readonly service: InferenceService;
  readonly side: Side;
  /** Existing revisions, of both sides. */
  readonly revisions: readonly ControllerRevision[];
  /** Hash of the current spec. */
  readonly hash: string;
  /** The content of the BackendRuntime in use. */
  readonly backend: RequestedBackend | undefined;
  /** Digest of the desired state of pods. */
  readonly renderedFor?: string;
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
  const { service, side, revisions, hash, backend, data, running } = input;
  const own = revisionsOn(revisions, side);
  const annotations = annotationsFor(input);
  const revision = Math.max(0, ...revisions.map((one) => one.revision)) + 1;
  const current = own.find((one) => hashOfRevision(one) === hash);
  const inUse = new Set([hash, service.status?.currentRevision, ...running]);
  const steps: ServiceStep[] = [];
  if (current === undefined) {
    const object = desiredRevision(service, { hash, data: data(), revision, annotations });
    steps.push({ do: "create", what: "revisions", object, because: "for rollbacks to the current spec" });
  } else if (storedBackend(current)?.revision !== backend?.revision) {
    steps.push({
      do: "remove",
      what: "revisions",
      object: current,
      because: "the BackendRuntime has changed",
    });
  } else {
    const operations = [
      ...(current === newestRevision(own, side)
        ? []
        : [{ op: "add", path: "/revision", value: revision } as const]),
      ...annotationsPatch(current, annotations),
    ];
    const because = "in use again";
    const guarded = [...versionGuards(current.metadata), ...operations];
    if (operations.length > 0)
      steps.push({ do: "patch", what: "revisions", object: current, operations: guarded, because });
  }
  const old = own.filter((one) => !inUse.has(hashOfRevision(one))).sort((a, b) => b.revision - a.revision);
  const because = "more old revisions than revisionHistoryLimit";
  for (const object of old.slice(revisionHistoryLimit(service.spec))) {
    steps.push({ do: "remove", what: "revisions", object, because });
  }
  return steps;
}

type Annotations = Readonly<Record<string, string>>;

/** What the revision was last rendered for. Undefined on hosts without a BackendRuntime. */
function annotationsFor({ backend, renderedFor, side }: RevisionsInput): Annotations | undefined {
  if (backend === undefined && renderedFor === undefined) return undefined;
  return defined({
    [ANNOTATION_RENDERED_FOR]: renderedFor,
    [ANNOTATION_BACKEND_REQUEST]: backend?.request[side],
  });
}

function annotationsPatch({ metadata }: ControllerRevision, desired: Annotations = {}): JsonPatchOp[] {
  const { annotations = {} } = metadata;
  if (Object.entries(desired).every(([name, value]) => annotations[name] === value)) return [];
  return [{ op: "add", path: "/metadata/annotations", value: { ...annotations, ...desired } }];
}

export function hashOfRevision({ metadata }: ControllerRevision): string {
  return metadata.labels?.[LABEL_REVISION] ?? "";
}

interface NewRevision {
  readonly hash: string;
  readonly data: RevisionData;
  readonly revision: number;
  readonly annotations?: Annotations | undefined;
}

export function desiredRevision(
  service: InferenceService,
  { hash, data, revision, annotations }: NewRevision,
): ControllerRevision {
  return {
    metadata: {
      ...ownedObjectRef(service, revisionName(service.metadata.name, hash)),
      labels: { ...ownerLabels(service), [LABEL_REVISION]: hash, ...MANAGED_BY },
      annotations,
    },
    revision,
    data,
  };
}
