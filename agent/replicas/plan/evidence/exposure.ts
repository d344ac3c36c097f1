/** May new connections come, and since when not: from what the API server says of the slice and what was attempted. */
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

/** One look at the slice of a run. An engine that was ready once was announced, whoever emptied its slice since. */
export function seeSlice(
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
