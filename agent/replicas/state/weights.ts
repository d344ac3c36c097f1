/** The weights of a replica: their files, or why there are none. Only this module writes them. */

import type { StoredModel } from "../../store/types.ts";
import type { ModelState } from "../evidence/observed.ts";

/** All weights of a replica. */
export interface WeightFiles {
  readonly model: StoredModel;
  readonly draft?: StoredModel;
  /** A projector that is a Model of its own; the model's own projector is among its files. */
  readonly projector?: StoredModel;
  /** In the order of the template. */
  readonly loraAdapters: readonly StoredModel[];
}

/** All stored models. */
export function storedFiles({ model, draft, projector, loraAdapters }: WeightFiles): StoredModel[] {
  return [model, draft, projector, ...loraAdapters].filter((one) => one !== undefined);
}

/** The planner's view, and the files. */
export type WeightsState =
  | Exclude<ModelState, { readonly at: "stored" }>
  | (Extract<ModelState, { readonly at: "stored" }> & {
      readonly files: WeightFiles;
      /** When the header was read, on the monotonic clock. */
      readonly inspectedAt: number;
      /** A file is damaged and was set aside. */
      readonly isDamaged?: true;
    });

interface WeightsHolder {
  readonly weights: WeightsState;
}

export function setWeights(holder: WeightsHolder, weights: WeightsState): void {
  (holder as { weights: WeightsState }).weights = weights;
}

/** The weights are resolved again before the next start. */
export function forgetWeights(holder: WeightsHolder): void {
  setWeights(holder, { at: "unknown" });
}

/** A file is damaged and was set aside. */
export function noteDamaged(holder: WeightsHolder): void {
  const { weights } = holder;
  if (weights.at === "stored") setWeights(holder, { ...weights, isDamaged: true });
}

/** Notes the identity of the files; if it differs from an earlier one, the files were replaced. */
export function noteIdentity(holder: WeightsHolder, found: string): void {
  const { weights } = holder;
  if (weights.at !== "stored") return;
  setWeights(
    holder,
    weights.weights === undefined ? { ...weights, weights: found } : { ...weights, isReplaced: true },
  );
}

/** The user corrected what the failure's message asks for: the retry is due now. */
export function noteCorrected(holder: WeightsHolder, now: number): void {
  const { weights } = holder;
  if (weights.at === "failed") setWeights(holder, { ...weights, retryAt: now });
}
