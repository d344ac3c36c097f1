/** The readings of one scrape, and their labels. */
import { keyOf } from "../../../src/api/names.ts";
import { type Labels, type MetricFamily, sampleIfKnown } from "../../../src/http/metrics/family.ts";
import type { ProcessFacts } from "../../../src/http/metrics/process.ts";
import type { Tally } from "../../../src/http/metrics/tally.ts";
import type { MemoryReading } from "../../../src/macos/host-reader.ts";
import type { RouteReading } from "../../gate/gate-routes.ts";
import type { ReplicaSnapshot } from "../../replicas/context/ports.ts";
import type { EngineReading, HostCounts } from "../../replicas/state/counts.ts";
import type { DiskReading } from "../../store/types.ts";

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

export interface Scrape extends MetricsFacts {
  readonly engines: readonly EngineReading[];
  readonly gate: readonly RouteReading[];
  readonly process: ProcessFacts;
}

export const HOST_LABELS = ["host"] as const;
export const REPLICA_LABELS = ["host", "namespace", "service", "replica"] as const;

export function hostLabels({ hostName }: MetricsFacts): Labels {
  return { host: hostName };
}

/** A gauge of the host; without a sample while its value is undefined. */
export function hostGauge(
  name: string,
  help: string,
  read: (scrape: Scrape) => number | undefined,
): MetricFamily<Scrape> {
  const samples = (scrape: Scrape) => sampleIfKnown(read(scrape), hostLabels(scrape));
  return { name, type: "gauge", help, labels: HOST_LABELS, read: samples };
}

/** The readings of named replicas, with the replica's labels. */
export function* labeledReadings<T>(
  scrape: Scrape,
  byUid: ReadonlyMap<string, T>,
): Iterable<readonly [T, Labels]> {
  for (const [{ uid }, labels] of namedReplicas(scrape)) {
    const reading = byUid.get(uid);
    if (reading !== undefined) yield [reading, labels];
  }
}

/** Skips replicas known only from a folder on disk: they have no name yet, and would share one series. */
export function* namedReplicas(scrape: Scrape): Iterable<readonly [ReplicaSnapshot, Labels]> {
  const seen = new Set<string>();
  for (const replica of scrape.replicas) {
    const { namespace, service, name } = replica;
    const key = keyOf({ namespace, name });
    // The engine of a deleted object may still be stopping while a new object of the same name starts.
    if (name === "" || seen.has(key)) continue;
    seen.add(key);
    yield [replica, { host: scrape.hostName, namespace, service, replica: name }];
  }
}
