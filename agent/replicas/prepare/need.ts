/** Memory to reserve for a replica: the maximum of the controller's claim, the estimate from the files, and actual use. */
import { describeError, MetalbridgeError } from "../../../src/api/errors.ts";
import type { Desired, Need, ObservedReplica, RunRecord } from "../evidence/observed.ts";

/** Memory that a replica without a running engine will need. A claim of 0 means that the controller could not estimate it. */
export function memoryNeedOf(
  { claimBytes, memory }: Pick<Desired, "claimBytes" | "memory">,
  { model }: Pick<ObservedReplica, "model">,
): Need {
  const found = model.at === "stored" ? model : undefined;
  const own = found?.claim;
  if (own?.at === "estimated" && own.bytes > claimBytes)
    return { at: "known", bytes: own.bytes, memory: own.memory };
  if (own?.at === "estimated") return { at: "known", bytes: claimBytes, memory };
  if (claimBytes > 0) return { at: "known", bytes: Math.max(claimBytes, found?.sizeBytes ?? 0), memory };
  const message =
    "cannot estimate memory: neither the controller nor the model's files have the required size";
  const error = new MetalbridgeError("ClaimUnknown", message);
  return own ?? { at: "unknown", code: error.code, message: describeError(error) };
}

/**
 * Reservation of a running engine. It grows immediately, and shrinks only after weights and process have been inspected, so
 * that a restarted agent does not release memory that the previous one knew to be used.
 */
export function reservationOf(desired: Desired, observed: ObservedReplica, record: RunRecord): number {
  const { footprint, model } = observed;
  const need = memoryNeedOf(desired, observed);
  const neededBytes = Math.max(need.at === "known" ? need.bytes : 0, footprint?.bytes ?? 0);
  const mayShrink = need.at === "known" && model.at === "stored" && footprint !== undefined;
  return mayShrink ? neededBytes : Math.max(neededBytes, record.claimBytes);
}
