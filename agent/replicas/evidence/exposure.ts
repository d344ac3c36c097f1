/** Whether new connections may arrive, and since when not: from the acknowledged slice and the attempted writes. */
import type { Slice, SliceState } from "../observed.ts";

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

/** Adds a reading of a run's slice. An engine that was ever ready was announced, even if its slice was emptied since. */
export function noteSlice(
  before: Omit<Slice, "state">,
  state: SliceState,
  wasReady: boolean,
  now: number,
): Slice {
  const { withdrawnAt = now, ...rest } = before;
  const wasExposed = before.wasExposed || wasReady || state === "ready" || state === "stale";
  const slice = { ...rest, state, wasExposed };
  return wasExposed && !isAnnounced(slice) ? { ...slice, withdrawnAt } : slice;
}
