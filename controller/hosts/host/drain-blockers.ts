/** Reasons why replicas stay on draining hosts. The passes over services write them, and the passes over hosts read them. */

import type { FindDrainBlocker } from "./drain.ts";

export interface DrainBlockers {
  /** Sets the reasons of one service by `namespace/name` of the replica. Returns true if that changes anything. */
  readonly set: (service: string, reasons: ReadonlyMap<string, string>) => boolean;
  readonly reason: FindDrainBlocker;
}

export function createDrainBlockers(): DrainBlockers {
  const byService = new Map<string, ReadonlyMap<string, string>>();
  const byReplica = new Map<string, string>();
  return {
    set: (service, reasons) => {
      const before = byService.get(service) ?? new Map<string, string>();
      const isSame =
        before.size === reasons.size && [...reasons].every(([key, why]) => before.get(key) === why);
      if (isSame) return false;
      for (const replica of before.keys()) byReplica.delete(replica);
      for (const [replica, reason] of reasons) byReplica.set(replica, reason);
      if (reasons.size === 0) byService.delete(service);
      else byService.set(service, reasons);
      return true;
    },
    reason: (replica) => byReplica.get(replica),
  };
}
