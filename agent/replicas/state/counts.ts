/** Replica counts since the agent's start, as plain numbers: they are correct no matter when they are scraped. */

import type { ReplicaTemplate } from "../../../src/api/inference-replica.ts";
import type { EngineGauges } from "../../../src/engines/contract/engine-gauges.ts";
import type { Histogram } from "../../../src/http/metrics/family.ts";
import {
  createHistogram,
  type LabeledHistograms,
  observeValue,
} from "../../../src/http/metrics/histogram.ts";
import { createLoadTimes } from "../../../src/http/metrics/live.ts";
import { createTally, type Tally } from "../../../src/http/metrics/tally.ts";

/** health: the health endpoint. request: one real token. */
type ProbeKind = "health" | "request";

/** Counts of one replica, for as long as it exists. */
export interface ReplicaCounts {
  readonly probes: Readonly<Record<ProbeKind, { readonly seconds: Histogram; failures: number }>>;
}

/** quiet: no request was left. deadline: drainSeconds had elapsed. ended: the engine exited during the drain. */
export type DrainOutcome = "quiet" | "deadline" | "ended";

/** Counts of all replicas together, including deleted ones. */
export interface HostCounts {
  readonly drains: Readonly<Record<DrainOutcome, Histogram>>;
  readonly fetchFailures: Tally;
  /** Load times by model, runtime and phase. */
  readonly loads: LabeledHistograms;
}

/** pull: a download of weights that has succeeded. start: from the start of an engine until it was ready. */
type LoadPhase = "pull" | "start";

/** The gauges of one engine. */
export interface EngineReading {
  readonly uid: string;
  readonly gauges: EngineGauges | "unknown";
}

/** Engines answer probes in milliseconds; a first request may take as long as reading the weights from disk. */
const HEALTH_SECONDS = [0.005, 0.025, 0.1, 0.5, 2.5] as const;
const REQUEST_SECONDS = [0.1, 0.5, 1, 5, 15, 60] as const;
const DRAIN_SECONDS = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600] as const;

export function createReplicaCounts(): ReplicaCounts {
  return {
    probes: {
      health: { seconds: createHistogram(HEALTH_SECONDS), failures: 0 },
      request: { seconds: createHistogram(REQUEST_SECONDS), failures: 0 },
    },
  };
}

export function createHostCounts(): HostCounts {
  return {
    drains: {
      quiet: createHistogram(DRAIN_SECONDS),
      deadline: createHistogram(DRAIN_SECONDS),
      ended: createHistogram(DRAIN_SECONDS),
    },
    fetchFailures: createTally(),
    loads: createLoadTimes(),
  };
}

export function countProbe(counts: ReplicaCounts, kind: ProbeKind, tookMs: number, isFailed: boolean): void {
  const probe = counts.probes[kind];
  observeValue(probe.seconds, tookMs / 1_000);
  if (isFailed) probe.failures += 1;
}

export function countDrain(counts: HostCounts, outcome: DrainOutcome, tookMs: number): void {
  observeValue(counts.drains[outcome], tookMs / 1_000);
}

export function countLoad(
  { loads }: HostCounts,
  { model, runtime: backend }: Pick<ReplicaTemplate, "model" | "runtime">,
  phase: LoadPhase,
  tookMs: number,
): void {
  loads.observe({ model: model.source, backend, phase }, Math.max(0, tookMs) / 1_000);
}
