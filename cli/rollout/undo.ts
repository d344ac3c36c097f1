/** Going back to an earlier revision: which one, and what that changes in the service's spec. Pure. */

import { MetalbridgeError } from "../../src/api/errors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import {
  endpointWith,
  type RevisionData,
  revisionSpec,
  storedSpec,
} from "../../src/capacity/revision-data.ts";
import { contentOf } from "../../src/capacity/template.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import { changesBetween, type SpecChange } from "./changes.ts";
import type { HistoryEntry } from "./history.ts";

export interface UndoPlan {
  readonly target: HistoryEntry;
  readonly changes: readonly SpecChange[];
  /** Empty when the service asks for that revision's spec already. */
  readonly operations: readonly JsonPatchOp[];
  /** What going back does not bring back. */
  readonly notes: readonly string[];
}

/**
 * 0 is the one that serves while another is brought in, and otherwise, as with kubectl, the last but one. Throws
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
    const kept = numbers === "" ? "none is kept" : `kept are ${numbers}`;
    throw new MetalbridgeError(
      "RevisionNotFound",
      `service ${metadata.name} has no revision ${toRevision}; ${kept}`,
      {
        summary: "choose one that is kept",
        command: `metalbridge rollout history ${metadata.name} -n ${metadata.namespace}`,
      },
    );
  }
  // The newest revision is then not that of the spec, and "the one before" would be one too early.
  if ((status?.observedGeneration ?? 0) < (metadata.generation ?? 0)) {
    throw new MetalbridgeError(
      "RevisionNotFound",
      `the controller has not seen the last change of service ${metadata.name} yet`,
      { summary: `try again in a moment, or name a revision (${numbers || "none yet"}) with --to-revision` },
    );
  }
  // What lies between was never rolled out: the last but one may be what the newest was to correct.
  const before = history.find(({ isServing, isNewest }) => isServing && !isNewest) ?? history.at(-2);
  if (before !== undefined) return before;
  throw new MetalbridgeError("RevisionNotFound", `service ${metadata.name} has no earlier revision`);
}

/** Throws RevisionNotRestorable. `data` names the Model that must be looked up for the notes. */
export function restorable({ revision, data }: HistoryEntry): RevisionData {
  if (data !== undefined) return data;
  const message = `revision ${revision} holds no spec that could be written back`;
  throw new MetalbridgeError("RevisionNotRestorable", message);
}

/** `model` is the Model that the revision names, as it is now. */
export function planUndo(
  service: InferenceService,
  target: HistoryEntry,
  model: Model | undefined,
): UndoPlan {
  const data = restorable(target);
  const { spec, status } = service;
  const side = data.template === undefined ? "Pods" : "Hosts";
  const { modelRevision } = spec;
  const current = {
    ...revisionSpec(spec, spec.runtime ?? status?.runtime, side),
    ...(modelRevision === undefined ? {} : { modelRevision }),
  };
  const wanted = { ...storedSpec(data), ...earlierContent(data, model) };
  const changes = changesBetween(current, wanted);
  const operations = changes.length === 0 ? [] : operationsOf(service, changes, wanted);
  return { target, changes, operations, notes: notesOf(data, model) };
}

/** Set where the revision had other content of the Model than there is now, from the same source. */
function earlierContent({ template, model }: RevisionData, now: Model | undefined): Fields {
  const { name: _, source, revision } = model;
  const isCurrent = revision === undefined || revision === contentOf(now?.status?.pinned);
  return template === undefined || isCurrent || now?.spec.source !== source
    ? {}
    : { modelRevision: revision };
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Whole fields of spec, and only onto the spec that was read: the generation changes with every write to it, and not with
 * the controller's many writes to status.
 */
function operationsOf(
  { metadata, spec }: InferenceService,
  changes: readonly SpecChange[],
  wanted: Fields,
): readonly JsonPatchOp[] {
  const touched = new Set(changes.map(({ field }) => field.split(".")[0] ?? field));
  return [
    { op: "test", path: "/metadata/uid", value: metadata.uid },
    { op: "test", path: "/metadata/generation", value: metadata.generation },
    ...[...touched].map((field): JsonPatchOp => {
      const path = `/spec/${field}`;
      const value = field === "endpoint" ? endpointWith(spec.endpoint, wanted[field]) : wanted[field];
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
    if (isForPods && model.revision !== contentOf(now.status?.pinned))
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
