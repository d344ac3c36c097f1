/** Replaces the reflector of a kind that this process neither needs nor has rights to. */
import type { Reflector } from "../types.ts";

/** A reflector that is synced and always empty. */
export const UNWATCHED: Reflector<never> = {
  get: () => undefined,
  list: () => [],
  isSynced: () => true,
  whenSynced: () => Promise.resolve(),
  lastActivityMs: () => undefined,
  interruptions: () => 0,
  relist: () => {},
  retryWithin: () => {},
};
