/** Derives from the acknowledged slice and the attempted writes whether new connections may arrive. */
import type { Slice, SliceState } from "./observed.ts";

/** True while new connections may still be sent to this engine. */
export function isAnnounced({ state, mayArrive }: Pick<Slice, "state" | "mayArrive">): boolean {
  switch (state) {
    case "ready":
    case "stale":
    case "unknown":
      return true;
    case "unwritten":
      return mayArrive;
    case "missing":
    case "withdrawn":
      return false;
    default:
      return state satisfies never;
  }
}

/** Adds a reading of a run's slice. An engine that was ever Ready was announced, even if its slice was emptied since. */
export function noteSlice(
  before: Omit<Slice, "state">,
  state: SliceState,
  wasReady: boolean,
  now: number,
): Slice {
  const wasExposed = before.wasExposed || wasReady || state === "ready" || state === "stale";
  const isWithdrawn = wasExposed && !isAnnounced({ ...before, state });
  return { ...before, state, wasExposed, withdrawnAt: isWithdrawn ? (before.withdrawnAt ?? now) : undefined };
}
