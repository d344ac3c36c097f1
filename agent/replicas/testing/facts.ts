/** Where observations in tests start from. */

import type { Desired, ObservedReplica } from "../evidence/observed.ts";
import { NO_OBSERVED_WORK } from "../evidence/work.ts";

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
export function nothingKnown(): ObservedReplica {
  return {
    run: { at: "none" },
    model: { at: "absent" },
    memory: { budgetBytes: "unknown", othersBytes: 0 },
    pressure: { at: "none" },
    launch: { at: "untried" },
    runtime: { at: "unknown" },
    hasAddress: true,
    isBoundElsewhere: false,
    isCutOff: false,
    slice: { state: "unknown", wasExposed: false, mayArrive: true },
    ...newRun(),
    crashes: { restarts: 0 },
    wasListed: false,
  };
}

/** What is known of a run at its start. */
export function newRun(): Pick<ObservedReplica, "health" | "request" | "work" | "suspicion" | "quiet"> {
  return {
    health: { failuresInARow: 0 },
    request: { at: "none" },
    work: NO_OBSERVED_WORK,
    suspicion: { at: "none" },
    quiet: {},
  };
}
