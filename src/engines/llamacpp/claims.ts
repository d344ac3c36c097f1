/** Claims of llama-server. */
import type { ClaimEstimator } from "../contract/claims.ts";
import { bufferLayoutOf, estimateClaim } from "./claim/claim.ts";
import { contextBeyondTraining } from "./claim/claim-notes.ts";
import { COMPUTE_TABLES } from "./claim/compute/table.ts";

export const llamacppClaims: ClaimEstimator = {
  estimate: (summary, settings, accelerator) =>
    estimateClaim(summary, settings, accelerator === "cpu" ? COMPUTE_TABLES.cpu : COMPUTE_TABLES.metal),
  layOut: bufferLayoutOf,
  // The buffers of a projector grow with the tokens of an image, by a size that is not in its header.
  uncountedArgs: ["--image-min-tokens", "--image-max-tokens", "--mtmd-batch-max-tokens"],
  contextWarning: contextBeyondTraining,
};
