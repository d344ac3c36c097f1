/** llama-server's entry in the registry of claims. */
import type { ClaimEstimator } from "../claims.ts";
import { estimateClaim } from "./claim/claim.ts";
import { contextBeyondTraining } from "./claim/claim-notes.ts";
import { COMPUTE_TABLES } from "./claim/compute/table.ts";

export const llamacppClaims: ClaimEstimator = {
  estimate: (summary, settings, accelerator) =>
    estimateClaim(summary, settings, accelerator === "cpu" ? COMPUTE_TABLES.cpu : COMPUTE_TABLES.metal),
  contextWarning: contextBeyondTraining,
};
