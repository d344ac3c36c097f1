/** What the agent's metrics are made of: gathered once per scrape, from state that is kept anyway. */
import type { Tally } from "../../src/http/metrics/tally.ts";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import type { RouteReading } from "../gate/gate-routes.ts";
import type { ReplicaSnapshot } from "../replicas/ports.ts";
import type { EngineReading, HostCounts } from "../replicas/state/counts.ts";
import type { DiskReading } from "../store/types.ts";

export interface MetricsFacts {
  readonly hostName: string;
  readonly version: string;
  /** When this process started, on the wall clock. */
  readonly startedAtMs: number;
  readonly replicas: readonly ReplicaSnapshot[];
  readonly counts: HostCounts;
  readonly claimedBytes: number;
  readonly budgetBytes: number | undefined;
  /** As last read for the Host's status; undefined before the first reading. */
  readonly memory: MemoryReading | undefined;
  readonly disk: DiskReading | undefined;
  readonly diskReserveBytes: number;
  readonly downloadedBytes: number;
  readonly apiRequests: Tally;
  readonly isNameOurs: boolean;
  readonly isSynced: boolean;
  /** Since the replica watch last gave a sign of life. */
  readonly watchAgeMs: number | undefined;
}

export interface MetricsSource {
  readonly facts: () => MetricsFacts;
  readonly readEngines: (timeoutMs: number) => Promise<readonly EngineReading[]>;
  readonly readGate: (timeoutMs: number) => Promise<readonly RouteReading[]>;
}
