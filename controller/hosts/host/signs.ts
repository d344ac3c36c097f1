/** Remembers observed changes of Leases, which is the only state for liveness. */
import type { Clock } from "../../../src/util/ports.ts";
import { type Absence, SILENCE_MS } from "./liveness.ts";

/** The fields of a Lease that change when its host renews it. Without a holder, no agent has joined. */
export interface LeaseMark {
  readonly holder?: string;
  readonly renewTime?: string;
}

export interface LeaseSigns {
  /**
   * Returns true for a new renewal. A Lease from the first list does not count, because it may be old, and neither does a Lease
   * without a holder, which was just registered or released.
   */
  readonly note: (host: string, mark: LeaseMark, isFirstList: boolean) => boolean;
  readonly lastChangeMs: (host: string) => number | undefined;
  /** The last period for which the Lease had expired. */
  readonly absence: (host: string) => Absence | undefined;
  readonly countedFromMs: () => number;
  /** Restarts the silence of all hosts. */
  readonly resetTimeouts: () => void;
  readonly hosts: () => readonly string[];
}

/** Silence counts from the creation. */
export function createLeaseSigns(clock: Clock): LeaseSigns {
  const marks = new Map<string, string>();
  const changes = new Map<string, number>();
  const absences = new Map<string, Absence>();
  let countedFromMs = clock.monotonicMs();
  return {
    note: (host, mark, isFirstList) => {
      const text = leaseMarkText(mark);
      const before = marks.get(host);
      if (before === text) return false;
      marks.set(host, text);
      if ((before === undefined && isFirstList) || mark.holder === undefined) return false;
      const now = clock.monotonicMs();
      const fromMs = Math.max(changes.get(host) ?? countedFromMs, countedFromMs);
      if (now - fromMs >= SILENCE_MS) absences.set(host, { fromMs, toMs: now });
      changes.set(host, now);
      return true;
    },
    lastChangeMs: (host) => changes.get(host),
    absence: (host) => absences.get(host),
    countedFromMs: () => countedFromMs,
    resetTimeouts: () => {
      countedFromMs = clock.monotonicMs();
    },
    hosts: () => [...marks.keys()],
  };
}

const MAX_HOLDER = 253;
const MAX_TIME = 64;

/** Limits the stored text, because a host may write any value to its Lease. */
export function leaseMarkText({ holder = "", renewTime = "" }: LeaseMark): string {
  return `${renewTime.slice(0, MAX_TIME)} ${holder.slice(0, MAX_HOLDER)}`;
}
