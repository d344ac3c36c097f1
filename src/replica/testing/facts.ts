/** Where observations in tests start from. */
import type { Desired, Observed } from "../observed.ts";

/** The usual wish: serve. */
export const SERVE: Desired = {
  revision: "r1",
  runtime: "llamacpp",
  claimBytes: 100,
  weightsBytes: 50,
  drainSeconds: 30,
  isDeleting: false,
  hasFinalizer: true,
};

/** Nothing is known and nothing runs. */
export function nothingKnown(): Observed {
  return {
    run: { at: "none" },
    model: { at: "absent" },
    memory: { budgetBytes: "unknown", othersBytes: 0 },
    launch: { at: "untried" },
    runtime: { at: "unknown" },
    hasAddress: true,
    isBoundElsewhere: false,
    slice: { state: "unknown", wasExposed: false },
    health: { failuresInARow: 0 },
    request: { at: "none" },
    quiet: {},
    signals: {},
    crashes: { restarts: 0, inARow: 0 },
    wasListed: false,
  };
}
