/** Pins the content that a Model resolved to, so that every replica fetches the same content. Pure. */
import type { Model, ModelStatus } from "../../../src/api/model.ts";
import { isCommit } from "../../../src/hub/inspect/change-marker.ts";
import { canonicalJson, hash } from "../../../src/util/hash.ts";
import type { Task } from "./classify.ts";
import type { InspectionResult } from "./inspections.ts";

type Pinned = NonNullable<ModelStatus["pinned"]>;

export interface ObservedSource {
  readonly model: Model;
  readonly task: Task;
  /** The last inspection; undefined if there was none for this spec. */
  readonly inspection: InspectionResult | undefined;
}

/** The pin in the status, if it is for the files that the spec selects. */
export function pinnedOf({ spec, status }: Model): Pinned | undefined {
  return status?.pinned?.key === keyOf(spec) ? status.pinned : undefined;
}

/**
 * The pin is part of the template of replicas, so it must be stable. An outage keeps it. IfNotPresent keeps the first pin.
 * OnChange keeps it while the source has the same content, even with new commits, unless the pinned commit was deleted and no
 * host could fetch it.
 */
export function planPin(observed: ObservedSource): Pinned | undefined {
  const { task, model } = observed;
  // A refused Model may be accepted again, and its services keep their content. A Job downloads the content that was inspected.
  if (task.at === "refused" || task.at === "onVolume") return pinnedOf(model);
  return task.at === "remote" ? planRemotePin(observed) : undefined;
}

function planRemotePin({ model, inspection }: ObservedSource): Pinned | undefined {
  const { spec } = model;
  const before = pinnedOf(model);
  if (inspection?.at !== "found") return before;
  const { isChosen, files, revision } = inspection.found;
  const choice = isChosen && files[0] !== undefined ? { file: files[0] } : undefined;
  const key = keyOf(spec);
  const chosen = choice && { key, ...choice };
  if (inspection.watched !== undefined)
    return followed(before, chosen ?? { key }, inspection.watched) ?? chosen;
  if (before !== undefined) return before;
  const commit = isCommit(revision) ? { revision } : undefined;
  return choice || commit ? { key, ...choice, ...commit } : undefined;
}

/** Undefined if neither the source nor the pin has a marker. */
function followed(
  before: Pinned | undefined,
  chosen: Pinned,
  watched: NonNullable<Extract<InspectionResult, { at: "found" }>["watched"]>,
): Pinned | undefined {
  if (watched.at === "unstable") return before?.changeMarker === undefined ? undefined : before;
  const isSame = before?.changeMarker === watched.mark.changeMarker && watched.isPinDeleted !== true;
  return isSame ? before : { ...chosen, ...watched.mark };
}

function keyOf({ source, files = [], ignorePatterns, ...spec }: Model["spec"]): string {
  const { mmproj, format, quantization, refreshPolicy } = spec;
  return hash(
    canonicalJson({ source, files, ignorePatterns, mmproj, format, quantization, refreshPolicy }),
    16,
  );
}
