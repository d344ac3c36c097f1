/** Plans a rollback: the revision, and the changes to the spec of the service. Pure. */
import { MetalbridgeError, remedyOf } from "../../api/errors.ts";
import type { InferenceService } from "../../api/inference-service/index.ts";
import type { Model } from "../../api/model.ts";
import type { JsonPatchOp } from "../../kube/types.ts";
import { endpointWith, type RevisionData, revisionSpec, storedSpec } from "../revision-data.ts";
import { revisionContentOf } from "../template.ts";
import { changesBetween, type SpecChange } from "./changes.ts";
import type { HistoryEntry } from "./history.ts";

export interface UndoPlan {
  readonly target: HistoryEntry;
  readonly changes: readonly SpecChange[];
  /** Empty if the service already has the spec of the revision. */
  readonly operations: readonly JsonPatchOp[];
  /** Notes about content that a rollback does not restore. */
  readonly notes: readonly string[];
}

/**
 * Revision 0 means the serving revision during a rollout and, as in kubectl, the second newest otherwise. Throws
 * RevisionNotFound.
 */
export function chooseRevision(
  { metadata, status }: InferenceService,
  history: readonly HistoryEntry[],
  toRevision: number,
): HistoryEntry {
  const numbers = history.map(({ revision }) => revision).join(", ");
  if (toRevision !== 0) {
    const found = history.find(({ revision }) => revision === toRevision);
    if (found !== undefined) return found;
    const available = numbers === "" ? "no revision is stored" : `stored revisions: ${numbers}`;
    throw new MetalbridgeError(
      "RevisionNotFound",
      `service ${metadata.name} has no revision ${toRevision}; ${available}`,
      {
        summary: "choose a stored revision",
        command: `metalbridge rollout history ${metadata.name} -n ${metadata.namespace}`,
      },
    );
  }
  // The newest revision is older than the spec, so the second newest would be one too old.
  if ((status?.observedGeneration ?? 0) < (metadata.generation ?? 0)) {
    throw new MetalbridgeError(
      "RevisionNotFound",
      `the controller has not seen the last change of service ${metadata.name} yet`,
      { summary: `try again in a moment, or name a revision (${numbers || "none yet"}) with --to-revision` },
    );
  }
  // Revisions after the serving one were never rolled out, and the second newest may be the one that the newest fixes.
  const before = history.find(({ isServing, isNewest }) => isServing && !isNewest) ?? history.at(-2);
  if (before !== undefined) return before;
  throw new MetalbridgeError(
    "RevisionNotFound",
    `service ${metadata.name} has no earlier revision`,
    remedyOf("RevisionNotFound", { service: `${metadata.name} -n ${metadata.namespace}` }),
  );
}

/** Throws RevisionNotRestorable. */
export function restorable(
  { metadata }: Pick<InferenceService, "metadata">,
  { revision, data }: HistoryEntry,
): RevisionData {
  if (data !== undefined) return data;
  const message = `revision ${revision} has no spec that can be restored`;
  const remedy = remedyOf("RevisionNotRestorable", { service: `${metadata.name} -n ${metadata.namespace}` });
  throw new MetalbridgeError("RevisionNotRestorable", message, remedy);
}

/** `model` is the current Model with the name from the revision. */
export function planUndo(
  service: InferenceService,
  target: HistoryEntry,
  model: Model | undefined,
): UndoPlan {
  const data = restorable(service, target);
  const { spec, status } = service;
  const side = data.template === undefined ? "Pods" : "Hosts";
  const { modelRevision } = spec;
  const current = {
    ...revisionSpec(spec, spec.runtime ?? status?.runtime, side),
    ...(modelRevision === undefined ? {} : { modelRevision }),
  };
  const desired = { ...storedSpec(data), ...earlierContent(data, model) };
  const changes = changesBetween(current, desired);
  const operations = changes.length === 0 ? [] : operationsOf(service, changes, desired);
  return { target, changes, operations, notes: notesOf(data, model) };
}

/** Not empty if the revision had different content of the Model from the same source. */
function earlierContent({ template, model }: RevisionData, now: Model | undefined): Fields {
  const { name: _, source, revision } = model;
  const isCurrent = revision === undefined || revision === revisionContentOf(now?.status?.pinned);
  return template === undefined || isCurrent || now?.spec.source !== source
    ? {}
    : { modelRevision: revision };
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Replaces complete fields of spec. The test of the generation ensures that the spec has not changed since it was read; status
 * updates do not change the generation.
 */
function operationsOf(
  { metadata, spec }: InferenceService,
  changes: readonly SpecChange[],
  desired: Fields,
): readonly JsonPatchOp[] {
  const touched = new Set(changes.map(({ field }) => field.split(".")[0] ?? field));
  return [
    { op: "test", path: "/metadata/uid", value: metadata.uid },
    { op: "test", path: "/metadata/generation", value: metadata.generation },
    ...[...touched].map((field): JsonPatchOp => {
      const path = `/spec/${field}`;
      const value = field === "endpoint" ? endpointWith(spec.endpoint, desired[field]) : desired[field];
      return value === undefined ? { op: "remove", path } : { op: "add", path, value };
    }),
  ];
}

function notesOf(data: RevisionData, now: Model | undefined): readonly string[] {
  const { model } = data;
  if (now === undefined)
    return [`Model ${model.name} does not exist any more; its source was ${model.source}`];
  if (now.spec.source === model.source) {
    const { modelRevision } = earlierContent(data, now);
    const isForPods = data.template === undefined && model.revision !== undefined;
    if (isForPods && model.revision !== revisionContentOf(now.status?.pinned))
      return [`Model ${model.name} has other content since; pods serve the current one`];
    if (modelRevision === undefined) return [];
    return [
      `the service keeps this content of Model ${model.name} until spec.modelRevision is removed; hosts without a copy fetch it, if the source still has it`,
    ];
  }
  return [
    `Model ${model.name} has changed since: its source was ${model.source} and is ${now.spec.source}; going back does not change a Model`,
  ];
}
