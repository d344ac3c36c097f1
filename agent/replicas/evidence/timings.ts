/** Every duration that the replica planner uses. Tests and services can override them. */
import { RESTARTS_RESET_AFTER_MS } from "../../../src/api/inference-replica.ts";
import { PERFORMANCE_WINDOW_MS, PERFORMANCE_WRITE_MS } from "../../../src/engines/live-performance.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export const defaultTimings = {
  /** Intervals of health probes: while the engine starts, once it serves, and after a failed probe. */
  startProbeMs: 50,
  firstProbeMs: 25,
  liveProbeMs: 5 * SECOND,
  failedProbeMs: SECOND,
  /** After a probe during which the engine was asleep, the next one gets this fraction of the timeout. */
  repeatedProbeShare: 0.2,
  /** A probe that times out this much too late was delayed by this process. */
  ownDelayMs: 500,
  /** Consecutive failed probes, each on a new connection, after which a live process counts as hung. */
  failuresUntilHung: 3,
  /** A process that answers counts as hung if its requests make no progress for this long, and for this many times its longest step. */
  stallMs: 2 * MINUTE,
  stallSteps: 4,
  /** If two readings are further apart than this, the time between them is no evidence. */
  stallGapMs: 30 * SECOND,
  /** Interval of reading an idle engine's gauges; a busy engine's are read with every live probe. */
  gaugesMs: 15 * SECOND,
  /** Interval of real requests to an engine whose log shows errors. */
  proveAgainMs: MINUTE,
  /** Time to become healthy: a base plus a time per GiB of weights. Progress extends it up to `startMaxFactor` times. */
  startBaseMs: MINUTE,
  startPerGiBMs: 2 * SECOND,
  startMaxFactor: 4,
  /** Timeout of one real request: the first one may have to load the weights into memory. */
  requestBaseMs: 30 * SECOND,
  requestRetryMs: SECOND,
  requestTries: 3,
  /** Time from the withdrawal's acknowledgement until every node's proxy has applied it. */
  propagationMs: 2 * SECOND,
  quietMs: 250,
  quietPollMs: 50,
  /** How long an engine that is idle, or out of time, has to stop before it is killed. */
  stopMs: 1.5 * SECOND,
  /** Interval of inspecting an engine that is stopping. */
  endingMs: SECOND,
  /** How long an engine that serves no requests waits for its withdrawal's acknowledgement before it is killed. */
  forcedWithdrawMs: 2 * SECOND,
  /** The same for engines that stop with their agent: the API server may have stopped first. */
  goodbyeMs: 3 * SECOND,
  /** Backoff after the first crash within `backoffResetMs` and after the second; it doubles with each further crash. */
  firstRestartMs: 0,
  backoffFirstMs: SECOND,
  backoffMaxMs: 5 * MINUTE,
  backoffResetMs: RESTARTS_RESET_AFTER_MS,
  fetchRetryFirstMs: 5 * SECOND,
  fetchRetryMaxMs: 5 * MINUTE,
  /** Minimum interval between two reports of a download's progress. */
  progressMs: 5 * SECOND,
  /** Period of the live performance's means, and minimum interval between two reports of it. */
  performanceWindowMs: PERFORMANCE_WINDOW_MS,
  performanceMs: PERFORMANCE_WRITE_MS,
  /** Interval of planning again while something outside has to change first. */
  outsideMs: 30 * SECOND,
  /** Interval of checking what a message asks the user to correct: a file, a Secret, a program, free disk space. */
  correctionMs: 3 * SECOND,
  endpointRetryMs: SECOND,
  shimMs: 250,
  /** A shim that has not written its process's pid by then never will: it is stopped, frozen, or cannot write. */
  shimMaxMs: 10 * SECOND,
  /** How long the host must have a new address before its engines restart on it; `cutOffMs` if the old one is down. */
  movedMs: 2 * SECOND,
  cutOffMs: 1.5 * SECOND,
  /** Interval of reading a process's actual memory footprint, and of one that was idle long before the last reading. */
  footprintMs: 5 * MINUTE,
  idleFootprintMs: 30 * MINUTE,
  /** Interval of reading the Secrets of a replica behind the gate. */
  secretsMs: MINUTE,
  /** How long keys that were removed from a Secret are still accepted: longer than all hosts and clients need to pick up the new ones. */
  keyOverlapMs: 5 * MINUTE,
  /** How long a route of the gate must have failed before the engine counts as unreachable: an exited gate restarts sooner. */
  routeMs: 2 * SECOND,
};

export type Timings = { readonly [K in keyof typeof defaultTimings]: number };
