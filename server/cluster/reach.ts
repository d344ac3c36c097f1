/** Reports since when the API server has not answered, by the watches. */
import { isApiUnavailable } from "../../src/kube/errors.ts";
import type { ApiFailure } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";

export interface Reach {
  /** A watch has failed. */
  readonly failed: (failure: ApiFailure) => void;
  /** The server has answered a watch. */
  readonly answered: () => void;
  /** Undefined while the API server answers. */
  readonly awaySinceMs: () => number | undefined;
  readonly listen: (listener: () => void) => void;
}

export function createReach(clock: Pick<Clock, "nowMs">): Reach {
  const listeners: (() => void)[] = [];
  let sinceMs: number | undefined;
  const set = (next: number | undefined): void => {
    if ((sinceMs === undefined) === (next === undefined)) return;
    sinceMs = next;
    for (const listener of listeners) listener();
  };
  return {
    failed: (failure) => {
      if (isApiUnavailable(failure)) set(clock.nowMs());
    },
    answered: () => set(undefined),
    awaySinceMs: () => sinceMs,
    listen: (listener) => void listeners.push(listener),
  };
}
