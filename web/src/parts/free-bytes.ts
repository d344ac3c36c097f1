/** Memory for new claims on a machine: the same figure on every page. Pure. */
import type { HostRow } from "../../../src/console/rows.ts";

/** Negative if the claims exceed the budget. `leftBytes` is less than the rest of the budget where other programs use memory. */
export function freeBytesOf({
  budgetBytes,
  reserveBytes,
  leftBytes = Number.POSITIVE_INFINITY,
  claims,
}: Pick<HostRow, "budgetBytes" | "reserveBytes" | "leftBytes" | "claims">): number {
  const claimedBytes = claims.reduce((sum, { bytes }) => sum + bytes, 0);
  return Math.min(leftBytes, Math.max(0, budgetBytes - reserveBytes) - claimedBytes);
}
