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

/** The machine as if a service, `namespace/name`, did not run. */
export function withoutService(host: HostRow, service: string): HostRow {
  const { leftBytes } = host;
  const claims = host.claims.filter((claim) => claim.service !== service);
  const freed = host.claims.reduce((sum, claim) => sum + (claim.service === service ? claim.bytes : 0), 0);
  return { ...host, claims, leftBytes: leftBytes === undefined ? undefined : leftBytes + freed };
}
