/** Whether another holder of a Lease is alive, judged by the changes we see on our own monotonic clock, never by its timestamps. */
import type { Lease } from "../objects.ts";

export interface LeaseObserver {
  /** Notes what the Lease looks like now; true while its holder must be taken for alive. */
  readonly isHolderAlive: (lease: Lease, monotonicMs: number) => boolean;
}

const DEFAULT_DURATION_S = 15;

/** Knows nothing at first: a holder counts as alive for one full duration after the first look. */
export function createLeaseObserver(): LeaseObserver {
  let seen: { readonly mark: string; readonly atMs: number } | undefined;
  return {
    isHolderAlive: (lease, monotonicMs) => {
      const {
        holderIdentity = "",
        renewTime = "",
        leaseDurationSeconds = DEFAULT_DURATION_S,
      } = lease.spec ?? {};
      if (holderIdentity === "") return false;
      const mark = `${lease.metadata.uid} ${holderIdentity} ${renewTime}`;
      if (seen?.mark !== mark) seen = { mark, atMs: monotonicMs };
      return monotonicMs - seen.atMs < leaseDurationSeconds * 1_000;
    },
  };
}
