/** The facts from which the controller's metrics are computed. */
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Histogram, HistogramSample } from "../../../src/http/metrics/family.ts";
import type { ProcessFacts } from "../../../src/http/metrics/process.ts";
import type { Tally } from "../../../src/http/metrics/tally.ts";
import type { MoveResult } from "../move-tracker.ts";

/** The passes over the keys of one queue. */
export interface Passes {
  readonly seconds: Histogram;
  failures: number;
}

export interface Watch {
  readonly kind: string;
  /** Time since the last event, bookmark or list; undefined before the first. */
  readonly ageMs: number | undefined;
  readonly interruptions: number;
}

/** Facts of the leader, which is the only process with watches. */
export interface LeaderFacts {
  readonly services: readonly InferenceService[];
  readonly replicas: readonly InferenceReplica[];
  readonly hosts: readonly Host[];
  readonly watches: readonly Watch[];
  /** Demands that wait for capacity on hosts, and services whose pods wait for a node. */
  readonly waiting: Readonly<Record<"hosts" | "pods", number>>;
  /** Keys that are queued or in progress, by queue. */
  readonly depths: Readonly<Record<string, number>>;
  readonly podSpeeds: readonly PodSpeed[];
  /** Load times of pods that have become ready under this leader. */
  readonly podLoads: readonly HistogramSample[];
}

/** Generation speed of a pod. */
export interface PodSpeed {
  /** Source of the model. */
  readonly model: string;
  readonly backend: string;
  readonly node: string;
  readonly tokensPerSecond: number;
}

export interface ControllerFacts {
  readonly isLeading: boolean;
  /** Passes by queue, since the start of the process. */
  readonly passes: ReadonlyMap<string, Passes>;
  readonly apiRequests: Tally;
  /** Moves by result, since the start of the process. */
  readonly moves: Readonly<Record<MoveResult, number>>;
  readonly leader: LeaderFacts | undefined;
  readonly process: ProcessFacts;
}
