/** Liveness of all hosts together: watches signs, judges, and names the hosts whose verdict changed. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import type { Lease } from "../../src/kube/objects.ts";
import type { Clock } from "../../src/ports.ts";
import type { Caches } from "../cache/caches.ts";
import { type HostSign, type LivenessPlan, planLiveness, type Verdict } from "./liveness.ts";
import { LOST, REACHABLE } from "./plan.ts";
import type { LeaseMark, LeaseSigns } from "./signs.ts";

/** Many hosts expire at many moments; they are looked at together, at most so often. */
const MIN_RECHECK_MS = 250;

export interface Fleet {
  readonly verdictOf: (host: string) => Verdict;
  /** Judges all; returns the hosts whose verdict is another than last time. */
  readonly judge: () => { readonly changed: readonly string[]; readonly recheckAfterMs?: number };
}

export function createFleet(caches: Caches, signs: LeaseSigns, clock: Clock): Fleet {
  const last = new Map<string, Verdict["at"]>();
  let interruptions = caches.leases.interruptions();
  const plan = (): LivenessPlan => {
    const seen = caches.leases.interruptions();
    if (seen !== interruptions) signs.countAfresh();
    interruptions = seen;
    const input = { hosts: readSigns(caches, signs), countedFromMs: signs.countedFromMs() };
    return planLiveness(input, clock.monotonicMs());
  };
  return {
    verdictOf: (host) => plan().verdicts.get(host) ?? { at: "neverSeen" },
    judge: () => {
      const { verdicts, recheckAfterMs } = plan();
      const changed: string[] = [];
      for (const [host, { at }] of verdicts) {
        if (last.get(host) !== at) changed.push(host);
        last.set(host, at);
      }
      for (const host of last.keys()) if (!verdicts.has(host)) last.delete(host);
      if (recheckAfterMs === undefined) return { changed };
      return { changed, recheckAfterMs: Math.max(MIN_RECHECK_MS, recheckAfterMs) };
    },
  };
}

/** What of a Lease shows that its host lives. */
export function markOf(lease: Lease): LeaseMark {
  return { holder: lease.spec?.holderIdentity, renewTime: lease.spec?.renewTime };
}

function readSigns(caches: Caches, signs: LeaseSigns): HostSign[] {
  return caches.hosts.list().map(({ metadata, status }) => {
    const limits = caches.replicasOfHost.of(metadata.name).map(({ spec }) => spec.hostLostSeconds * 1000);
    return {
      name: metadata.name,
      lastChangeMs: signs.lastChangeMs(metadata.name),
      reachable: getCondition(status?.conditions, REACHABLE)?.status,
      isLost: isConditionTrue(status?.conditions, LOST),
      lostAfterMs: limits.length === 0 ? undefined : Math.min(...limits),
    };
  });
}
