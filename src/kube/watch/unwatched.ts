/** In place of the watch of a kind that this process has no rights to, and no use for. */
import type { Reflector } from "../types.ts";

/** Complete, and always empty. */
export const UNWATCHED: Reflector<never> = {
  get: () => undefined,
  list: () => [],
  isSynced: () => true,
  whenSynced: () => Promise.resolve(),
  lastSignMs: () => undefined,
  interruptions: () => 0,
  relist: () => {},
  retryWithin: () => {},
};
