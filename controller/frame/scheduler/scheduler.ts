/** The leader's scheduler. It adds assumed replicas and refusals to the shared scheduler. */
import type { Host } from "../../../src/api/host.ts";
import { hostFacts } from "../../../src/capacity/placement/host-facts.ts";
import {
  createScheduler,
  type PassResult,
  type Scheduler,
} from "../../../src/capacity/placement/scheduler/scheduler.ts";
import type { HostClaim } from "../../../src/capacity/placement/types.ts";
import type { ScoreWeights } from "../../../src/capacity/score.ts";
import { NO_REFUSALS, type RefusalHistory } from "./refusals.ts";

/** All times are monotonic. */
export interface ControllerScheduler {
  readonly noteHost: (name: string, host: Host | undefined) => void;
  /** Sets the claim of a watched replica; undefined if the replica no longer exists. */
  readonly noteClaim: (replica: string, claim: HostClaim | undefined) => void;
  /** Sets the demands of one service, which is empty if nothing is pending. Returns true if that changes the queue. */
  readonly setDemands: Scheduler["setDemands"];
  /** Runs a pass over the changes, and returns the services whose results may differ. */
  readonly plan: (now: number) => PassResult;
  readonly answers: Scheduler["answers"];
  /** True if a demand would find a host without these replicas. Checked before a serving replica is stopped for it. */
  readonly hasRoom: Scheduler["hasRoom"];
  readonly roomOnHosts: Scheduler["roomOnHosts"];
  /** Preemptions of the service's replicas that are not yet written to the replicas. */
  readonly preemptions: Scheduler["preemptions"];
  /** Services with slots that have no host, in queue order. */
  readonly pending: Scheduler["pending"];
  /** Counts a replica that is about to be created, until the watch shows it or its create fails. */
  readonly assume: (claim: HostClaim, now: number) => void;
  readonly forgetAssumed: (replica: string) => void;
  readonly refusals: (service: string) => RefusalHistory;
  readonly setRefusals: (service: string, history: RefusalHistory) => void;
  readonly forgetService: (service: string, now: number) => void;
}

/** A replica that the watch has not shown for this long was already deleted. */
const UNCONFIRMED_MS = 60_000;

export function createControllerScheduler(weights?: ScoreWeights): ControllerScheduler {
  const scheduler = createScheduler(weights);
  const assumed = new Map<string, number>();
  const histories = new Map<string, RefusalHistory>();
  const forgetAssumed = (replica: string) => {
    if (assumed.delete(replica)) scheduler.removeClaim(replica);
  };
  const { setDemands, answers, hasRoom, roomOnHosts, preemptions, pending } = scheduler;
  return {
    setDemands,
    answers,
    hasRoom,
    roomOnHosts,
    preemptions,
    pending,
    forgetAssumed,
    noteHost: (name, host) =>
      host === undefined ? scheduler.removeHost(name) : scheduler.setHost(hostFacts(host)),
    noteClaim: (replica, claim) => {
      assumed.delete(replica);
      if (claim === undefined) scheduler.removeClaim(replica);
      else scheduler.setClaim(claim);
    },
    plan: (now) => {
      for (const [replica, atMs] of assumed) if (now - atMs > UNCONFIRMED_MS) forgetAssumed(replica);
      return scheduler.pass(now);
    },
    assume: (claim, now) => {
      assumed.set(claim.replica, now);
      scheduler.setClaim(claim);
    },
    refusals: (service) => histories.get(service) ?? NO_REFUSALS,
    setRefusals: (service, history) => {
      if (history.since.size === 0 && history.refusals.length === 0) histories.delete(service);
      else histories.set(service, history);
    },
    forgetService: (service, now) => {
      setDemands(service, [], now);
      histories.delete(service);
    },
  };
}
