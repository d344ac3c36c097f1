/**
 * Why replicas stay on hosts that are being drained, as the passes over their services found; read by the
 * passes over hosts.
 */

export interface DrainBlockers {
  /** Of one service: `namespace/name` of a replica to why. True when that changes anything. */
  readonly set: (service: string, stays: ReadonlyMap<string, string>) => boolean;
  readonly why: (replica: string) => string | undefined;
}

export function createDrainBlockers(): DrainBlockers {
  const byService = new Map<string, ReadonlyMap<string, string>>();
  const whys = new Map<string, string>();
  return {
    set: (service, stays) => {
      const before = byService.get(service) ?? new Map<string, string>();
      const isSame = before.size === stays.size && [...stays].every(([key, why]) => before.get(key) === why);
      if (isSame) return false;
      for (const replica of before.keys()) whys.delete(replica);
      for (const [replica, why] of stays) whys.set(replica, why);
      if (stays.size === 0) byService.delete(service);
      else byService.set(service, stays);
      return true;
    },
    why: (replica) => whys.get(replica),
  };
}
