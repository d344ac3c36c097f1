/** Every duration and share that the governor uses. Tests can override them. Times in ms. */
import { backoffMs } from "../../../src/util/backoff.ts";

const NONE = [1, 1] as const;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export const defaultLimits = {
  /** Interval of readings: normally, and while memory is critical. */
  readMs: 5 * SECOND,
  criticalReadMs: SECOND,
  /** Maximum quiet time that a gap between two readings can count for. */
  longestGapMs: 10 * SECOND,
  /** Quiet time that lowers the level by one step. */
  leaveCriticalMs: 30 * SECOND,
  leaveWarningMs: 2 * MINUTE,
  /** Critical readings in a row before an engine is evicted; the count restarts after each eviction. */
  confirmations: 2,
  /** Swap that grows by this share of memory within the window is a separate sign of pressure. */
  swapWindowMs: MINUTE,
  swapShare: 0.02,
  /** Less available memory than this share is scarce; less than `scarcestShare` is a separate sign of pressure. */
  scarceShare: 0.05,
  scarcestShare: 0.02,
  /** For this time an engine killed from outside is a sign of pressure, if less memory than this share is available. */
  killMs: MINUTE,
  killShare: 0.1,
  /** An engine idle for this long may be unloaded while memory is low. */
  idleMs: 10 * MINUTE,
  /** Minimum time between the restarts of two evicted engines. */
  returnGapMs: MINUTE,
  /** How long an evicted engine stays away; doubled with each eviction of the last `forgetMs`. */
  awayFirstMs: 5 * MINUTE,
  awayMaxMs: 60 * MINUTE,
  forgetMs: 6 * 60 * MINUTE,
};

export type GovernorLimits = { readonly [K in keyof typeof defaultLimits]: number };

/** How long an engine stays away after its n-th eviction within `forgetMs` (n from 1). */
export function evictionBackoffMs(limits: GovernorLimits, evictions: number): number {
  const { awayFirstMs: firstMs, awayMaxMs: capMs } = limits;
  return backoffMs(evictions, { firstMs, capMs, jitter: NONE }, 0);
}
