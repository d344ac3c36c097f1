/** How many replicas of a service run on the side that is not preferred. Pure. */

/** The preferred side as its last pass left it. */
export interface PreferredSide {
  readonly ready: number;
  /** Replicas that it finds no place for. */
  readonly lacking: number;
}

/**
 * The other side gets what the preferred one has no room for, and gives a replica back only once the preferred side serves
 * in its place. `running`: what the other side runs now.
 */
export function spillOver(want: number, { ready, lacking }: PreferredSide, running: number): number {
  const missing = Math.max(0, want - ready);
  return Math.min(want, Math.max(lacking, Math.min(running, missing)));
}
