/** Every duration that the replica planner uses. Tests and services can override them. */
import { RESTARTS_RESET_AFTER_MS } from "../../src/api/inference-replica.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export interface Timings {
  /** Intervals of health probes: while the engine starts, once it serves, and after a failed probe. */
  readonly startProbeMs: number;
  readonly firstProbeMs: number;
  readonly liveProbeMs: number;
  readonly failedProbeMs: number;
  /** After a probe during which the engine was asleep, the next one gets this fraction of the timeout. */
  readonly repeatedProbeShare: number;
  /** A probe that times out this much too late was delayed by this process. */
  readonly ownDelayMs: number;
  /** Consecutive failed probes, each on a new connection, after which a live process counts as hung. */
  readonly failuresUntilHung: number;
  /** A process that answers counts as hung if its requests make no progress for this long, and for this many times its longest step. */
  readonly stallMs: number;
  readonly stallSteps: number;
  /** If two readings are further apart than this, the time between them is no evidence. */
  readonly stallGapMs: number;
  /** Interval of reading an idle engine's gauges; a busy engine's are read with every live probe. */
  readonly gaugesMs: number;
  /** Interval of real requests to an engine whose log shows errors. */
  readonly proveAgainMs: number;
  /** Time to become healthy: a base plus a time per GiB of weights. Progress extends it up to `startMaxFactor` times. */
  readonly startBaseMs: number;
  readonly startPerGiBMs: number;
  readonly startMaxFactor: number;
  /** Timeout of one real request: the first one may have to load the weights into memory. */
  readonly requestBaseMs: number;
  readonly requestRetryMs: number;
  readonly requestTries: number;
  /** From the withdrawal's acknowledgement until every node's proxy has seen it. */
  readonly propagationMs: number;
  readonly quietMs: number;
  readonly quietPollMs: number;
  /** How long an engine that is idle, or out of time, has to stop before it is killed. */
  readonly stopMs: number;
  /** Interval of inspecting an engine that is stopping. */
  readonly endingMs: number;
  /** How long an engine that serves no requests waits for its withdrawal's acknowledgement before it is killed. */
  readonly forcedWithdrawMs: number;
  /** The same for engines that stop with their agent: the API server may have stopped first. */
  readonly goodbyeMs: number;
  /** Backoff after the first crash within `backoffResetMs` and after the second; it doubles with each further crash. */
  readonly firstRestartMs: number;
  readonly backoffFirstMs: number;
  readonly backoffMaxMs: number;
  readonly backoffResetMs: number;
  readonly fetchRetryFirstMs: number;
  readonly fetchRetryMaxMs: number;
  /** Minimum interval between two reports of a download's progress. */
  readonly progressMs: number;
  /** Interval of planning again while something outside has to change first. */
  readonly outsideMs: number;
  /** Interval of checking what a message asks the user to correct: a file, a Secret, a program, free disk space. */
  readonly correctionMs: number;
  readonly endpointRetryMs: number;
  readonly shimMs: number;
  /** A shim that has not written its process's pid by then never will: it is stopped, frozen, or cannot write. */
  readonly shimMaxMs: number;
  /** How long the host must have a new address before its engines restart on it; `cutOffMs` if the old one is down. */
  readonly movedMs: number;
  readonly cutOffMs: number;
  /** Interval of reading a process's actual memory footprint, and of one that was idle long before the last reading. */
  readonly footprintMs: number;
  readonly idleFootprintMs: number;
  /** Interval of reading the Secrets of a replica behind the gate. */
  readonly secretsMs: number;
  /** How long keys that were removed from a Secret are still accepted: longer than all hosts and clients need to pick up the new ones. */
  readonly keyOverlapMs: number;
  /** How long a route of the gate must have failed before the engine counts as unreachable: an exited gate restarts sooner. */
  readonly routeMs: number;
}

export const defaultTimings: Timings = {
  startProbeMs: 50,
  firstProbeMs: 25,
  liveProbeMs: 5 * SECOND,
  failedProbeMs: SECOND,
  repeatedProbeShare: 0.2,
  ownDelayMs: 500,
  failuresUntilHung: 3,
  stallMs: 2 * MINUTE,
  stallSteps: 4,
  stallGapMs: 30 * SECOND,
  gaugesMs: 15 * SECOND,
  proveAgainMs: MINUTE,
  startBaseMs: MINUTE,
  startPerGiBMs: 2 * SECOND,
  startMaxFactor: 4,
  requestBaseMs: 30 * SECOND,
  requestRetryMs: SECOND,
  requestTries: 3,
  propagationMs: 2 * SECOND,
  quietMs: 250,
  quietPollMs: 50,
  stopMs: 1.5 * SECOND,
  endingMs: SECOND,
  forcedWithdrawMs: 2 * SECOND,
  goodbyeMs: 3 * SECOND,
  firstRestartMs: 0,
  backoffFirstMs: SECOND,
  backoffMaxMs: 5 * MINUTE,
  backoffResetMs: RESTARTS_RESET_AFTER_MS,
  fetchRetryFirstMs: 5 * SECOND,
  fetchRetryMaxMs: 5 * MINUTE,
  progressMs: 5 * SECOND,
  outsideMs: 30 * SECOND,
  correctionMs: 3 * SECOND,
  endpointRetryMs: SECOND,
  shimMs: 250,
  shimMaxMs: 10 * SECOND,
  movedMs: 2 * SECOND,
  cutOffMs: 1.5 * SECOND,
  footprintMs: 5 * MINUTE,
  idleFootprintMs: 30 * MINUTE,
  secretsMs: MINUTE,
  keyOverlapMs: 5 * MINUTE,
  routeMs: 2 * SECOND,
};
