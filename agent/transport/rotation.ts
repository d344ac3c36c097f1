/** When this host replaces the certificate with which its gate serves sealed replicas. Pure. */

const ROTATE_MS = 30 * 86_400_000;
/** Gateways and relays read the slices as this agent does; some of them later. */
export const PUBLISHED_MS = 60_000;

export interface TransportFiles {
  /** The wall time at which the current certificate came into use; undefined if there is none. */
  readonly currentSinceMs: number | undefined;
  readonly hasNext: boolean;
  /** For how long every EndpointSlice of this host's sealed replicas has had the next certificate; undefined if one has not. */
  readonly nextPublishedForMs?: number | undefined;
}

export type RotationStep = "createCurrent" | "createNext" | "useNext";

/**
 * The next step; undefined if there is none. A certificate is used for 30 days of the wall clock: one that is newer than the clock
 * stays, because the clock is wrong now or was then.
 */
export function planRotation(
  { currentSinceMs, hasNext, nextPublishedForMs }: TransportFiles,
  nowMs: number,
): RotationStep | undefined {
  if (currentSinceMs === undefined) return hasNext ? "useNext" : "createCurrent";
  if (hasNext) return (nextPublishedForMs ?? 0) >= PUBLISHED_MS ? "useNext" : undefined;
  return nowMs - currentSinceMs >= ROTATE_MS ? "createNext" : undefined;
}
