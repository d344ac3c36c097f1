/** Computes how many replicas of a service run on the side that is not preferred. Pure. */

/** State of the preferred side after its last pass. */
export interface PreferredSide {
  readonly ready: number;
  /** Number of replicas that do not fit. */
  readonly lacking: number;
}

/**
 * The other side gets the replicas that do not fit on the preferred side, and gives a replica back only once the preferred side
 * serves in its place. `running` is the number of replicas that the other side runs now.
 */
export function spillOver(desired: number, { ready, lacking }: PreferredSide, running: number): number {
  const missing = Math.max(0, desired - ready);
  return Math.min(desired, Math.max(lacking, Math.min(running, missing)));
}
