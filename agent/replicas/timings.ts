/** Every duration the replica planner uses, in one place, so that tests and services can shorten or lengthen them. */
import { RESTARTS_RESET_AFTER_MS } from "../../src/api/inference-replica.ts";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;

export interface Timings {
  /** Between health probes while the engine starts, and once it serves; sooner after a failed one. */
  readonly startProbeMs: number;
  readonly firstProbeMs: number;
  readonly liveProbeMs: number;
  readonly failedProbeMs: number;
  /** The part of a probe's timeout that the next one gets, after one that the engine slept through. */
  readonly repeatedProbeShare: number;
  /** A probe that times out so much too late was delayed by this process. */
  readonly ownDelayMs: number;
  /** Consecutive failed probes, each on a new connection, after which a live process counts as hung. */
  readonly failuresUntilHung: number;
  /** Requests without progress for this long, and for this many times its longest step: an answering process counts as hung. */
  readonly stallMs: number;
  readonly stallSteps: number;
  /** Readings further apart than this, and than twice the service's own interval, are no evidence about the time between. */
  readonly stallGapMs: number;
  /** Between two readings of an idle engine's gauges; a busy engine's are read with every live probe. */
  readonly gaugesMs: number;
  /** Between real requests to an engine whose log shows errors. */
  readonly proveAgainMs: number;
  /** Time to become healthy: base plus a share per GiB of weights; while progress is seen, up to `startMaxFactor` times that. */
  readonly startBaseMs: number;
  readonly startPerGiBMs: number;
  readonly startMaxFactor: number;
  /** Time for one real request: the first one may have to bring the weights into memory. */
  readonly requestBaseMs: number;
  readonly requestRetryMs: number;
  readonly requestTries: number;
  /** From the withdrawal's acknowledgement until every node's proxy has seen it. */
  readonly propagationMs: number;
  readonly quietMs: number;
  readonly quietPollMs: number;
  /** How long an engine that is idle, or out of time, has to stop before it is killed. */
  readonly stopMs: number;
  /** Between inspections of an engine that is on its way out. */
  readonly endingMs: number;
  /** How long an engine that serves no requests waits for its withdrawal's acknowledgement before it is killed. */
  readonly forcedWithdrawMs: number;
  /**
   * How long engines that stop with their agent wait for that acknowledgement: the API server may have
   * stopped first.
   */
  readonly goodbyeMs: number;
  /** After the first crash within `backoffResetMs`, and after the second; doubled with each further one. */
  readonly firstRestartMs: number;
  readonly backoffFirstMs: number;
  readonly backoffMaxMs: number;
  readonly backoffResetMs: number;
  readonly fetchRetryFirstMs: number;
  readonly fetchRetryMaxMs: number;
  /** Progress of a download is shown at most this often. */
  readonly progressMs: number;
  /** Plans again after this long when something outside has to change first. */
  readonly outsideMs: number;
  /** Between readings of what a message asks the user to correct: a file, a Secret, a program, room on the disk. */
  readonly correctionMs: number;
  readonly endpointRetryMs: number;
  readonly shimMs: number;
  /** A shim that has not named its process by then never will: it is stopped, frozen, or cannot write. */
  readonly shimMaxMs: number;
  /**
   * How long the host must have a new address before its engines restart on it; shorter if the old one is
   * gone.
   */
  readonly movedMs: number;
  readonly cutOffMs: number;
  /** Between readings of a process's actual memory footprint, and of one that has had no work since long before the last. */
  readonly footprintMs: number;
  readonly idleFootprintMs: number;
  /** Between readings of the Secrets of a replica behind the gate. */
  readonly secretsMs: number;
  /** For which keys that left a Secret are still accepted: longer than all hosts and clients need to learn of it. */
  readonly keyOverlapMs: number;
  /** How long a route of the gate must have failed before the engine counts as unreachable: an exited gate is back sooner. */
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
