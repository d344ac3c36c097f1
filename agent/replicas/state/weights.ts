/** The weights of a replica: where they are, or why they are not there. Only this module writes them. */

import type { StoredModel } from "../../store/types.ts";
import type { ModelState } from "../observed.ts";
/** All weights of a replica. */
export interface WeightFiles {
  readonly model: StoredModel;
  readonly draft?: StoredModel;
  /** In the order of the template's. */
  readonly loraAdapters: readonly StoredModel[];
}

/** The planner's view, and where the files are. */
export type WeightsState =
  | Exclude<ModelState, { readonly at: "stored" }>
  | (Extract<ModelState, { readonly at: "stored" }> & {
      readonly files: WeightFiles;
      /** When its header was read, on the monotonic clock. */
      readonly inspectedAt: number;
      /** A file of it is damaged and was set aside. */
      readonly isDamaged?: true;
    });

interface WeightsHolder {
  readonly weights: WeightsState;
}

export function setWeights(holder: WeightsHolder, weights: WeightsState): void {
  (holder as { weights: WeightsState }).weights = weights;
}

/** They are looked for again: nothing runs on them, or a file of theirs is damaged. */
export function forgetWeights(holder: WeightsHolder): void {
  setWeights(holder, { at: "unknown" });
}

/** A file of them is damaged and was set aside. */
export function noteDamaged(holder: WeightsHolder): void {
  const { weights } = holder;
  if (weights.at === "stored") setWeights(holder, { ...weights, isDamaged: true });
}

/** What the files are now: noted the first time, and as replaced where they are others later. */
export function noteIdentity(holder: WeightsHolder, found: string): void {
  const { weights } = holder;
  if (weights.at !== "stored") return;
  setWeights(
    holder,
    weights.weights === undefined ? { ...weights, weights: found } : { ...weights, isReplaced: true },
  );
}

/** What its message names was corrected. */
export function noteCorrected(holder: WeightsHolder, now: number): void {
  const { weights } = holder;
  if (weights.at === "failed") setWeights(holder, { ...weights, retryAt: now });
}
