/** Pins what a Model resolved to, so that every replica fetches the same content. Pure. */
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { canonicalJson, hash } from "../../src/hash.ts";
import type { ModelObservation } from "./plan.ts";

type Pinned = NonNullable<ModelStatus["pinned"]>;

/** A commit, or the digest of a manifest. */
const COMMIT = /^([0-9a-f]{40,64}|sha256:[0-9a-f]{64})$/;

/** The pin in the status, if it is about this very choice of files. */
export function pinnedOf({ spec, status }: Model): Pinned | undefined {
  return status?.pinned?.key === keyOf(spec) ? status.pinned : undefined;
}

/**
 * The pin goes into the template of replicas, so it must be stable: an outage keeps it, and IfNotPresent
 * keeps the first one. A Model that an earlier version resolved gets no pin, or its engines would restart
 * for nothing.
 */
export function planPin({ model, task, inspection, isKnown }: ModelObservation): Pinned | undefined {
  if (task.at !== "remote") return undefined;
  const { spec } = model;
  const before = pinnedOf(model);
  if (inspection?.at !== "found") return before;
  const { isChosen, files, revision } = inspection.found;
  const choice = isChosen && files[0] !== undefined ? { file: files[0] } : undefined;
  const key = keyOf(spec);
  if (spec.refreshPolicy === "OnChange") return choice && { key, ...choice };
  if (before !== undefined || (isKnown && choice === undefined)) return before;
  const commit = revision !== undefined && COMMIT.test(revision) ? { revision } : undefined;
  return choice || commit ? { key, ...choice, ...commit } : undefined;
}

function keyOf({ source, files = [], mmproj, format, quantization, refreshPolicy }: Model["spec"]): string {
  return hash(canonicalJson({ source, files, mmproj, format, quantization, refreshPolicy }), 16);
}
