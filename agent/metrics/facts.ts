/** The state behind the agent's metrics, gathered once per scrape. */
import type { Tally } from "../../src/http/metrics/tally.ts";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import type { RouteReading } from "../gate/gate-routes.ts";
import type { ReplicaSnapshot } from "../replicas/ports.ts";
import type { EngineReading, HostCounts } from "../replicas/state/counts.ts";
import type { DiskReading } from "../store/types.ts";

export interface MetricsFacts {
  readonly hostName: string;
  readonly version: string;
  /** Start time of this process, on the wall clock. */
  readonly startedAtMs: number;
  readonly replicas: readonly ReplicaSnapshot[];
  readonly counts: HostCounts;
  readonly claimedBytes: number;
  readonly budgetBytes: number | undefined;
  /** The last reading for the Host's status; undefined before the first one. */
  readonly memory: MemoryReading | undefined;
  readonly disk: DiskReading | undefined;
  readonly diskReserveBytes: number;
  readonly downloadedBytes: number;
  readonly apiRequests: Tally;
  readonly isNameOurs: boolean;
  readonly isSynced: boolean;
  /** Time since the last event or bookmark of the replica watch. */
  readonly watchAgeMs: number | undefined;
}

export interface MetricsSource {
  readonly facts: () => MetricsFacts;
  readonly readEngines: (timeoutMs: number) => Promise<readonly EngineReading[]>;
  readonly readGate: (timeoutMs: number) => Promise<readonly RouteReading[]>;
  readonly flexinferMetricNames?: boolean;
}
