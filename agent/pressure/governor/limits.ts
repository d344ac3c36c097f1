/** Every duration and share that the governor uses. Tests can override them. Times in ms. */
import { backoffMs } from "../../../src/util/backoff.ts";

const NONE = [1, 1] as const;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export interface GovernorLimits {
  /** Interval of readings: normally, and while memory is critical. */
  readonly readMs: number;
  readonly criticalReadMs: number;
  /** Maximum quiet time that a gap between two readings can count for. */
  readonly longestGapMs: number;
  /** Quiet time that lowers the level by one step. */
  readonly leaveCriticalMs: number;
  readonly leaveWarningMs: number;
  /** Critical readings in a row before an engine is evicted; the count restarts after each eviction. */
  readonly confirmations: number;
  /** Swap that grows by this share of memory within the window is a separate sign of pressure. */
  readonly swapWindowMs: number;
  readonly swapShare: number;
  /** Less available memory than this share is scarce; less than `scarcestShare` is a separate sign of pressure. */
  readonly scarceShare: number;
  readonly scarcestShare: number;
  /** For this time an engine killed from outside is a sign of pressure, if less memory than this share is available. */
  readonly killMs: number;
  readonly killShare: number;
  /** An engine idle for this long may be unloaded while memory is short. */
  readonly idleMs: number;
  /** Minimum time between the restarts of two evicted engines. */
  readonly returnGapMs: number;
  /** How long an evicted engine stays away; doubled with each eviction of the last `forgetMs`. */
  readonly awayFirstMs: number;
  readonly awayMaxMs: number;
  readonly forgetMs: number;
}

export const defaultLimits: GovernorLimits = {
  readMs: 5 * SECOND,
  criticalReadMs: SECOND,
  longestGapMs: 10 * SECOND,
  leaveCriticalMs: 30 * SECOND,
  leaveWarningMs: 2 * MINUTE,
  confirmations: 2,
  swapWindowMs: MINUTE,
  swapShare: 0.02,
  scarceShare: 0.05,
  scarcestShare: 0.02,
  killMs: MINUTE,
  killShare: 0.1,
  idleMs: 10 * MINUTE,
  returnGapMs: MINUTE,
  awayFirstMs: 5 * MINUTE,
  awayMaxMs: 60 * MINUTE,
  forgetMs: 6 * 60 * MINUTE,
};

/** How long an engine stays away after its n-th eviction within `forgetMs` (n from 1). */
export function evictionBackoffMs(limits: GovernorLimits, evictions: number): number {
  const { awayFirstMs: firstMs, awayMaxMs: capMs } = limits;
  return backoffMs(evictions, { firstMs, capMs, jitter: NONE }, 0);
}
