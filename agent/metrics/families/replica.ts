/** Metrics of each replica. Series end when the object is deleted. */
import { REPLICA_PHASES } from "../../../src/api/inference-replica.ts";
import {
  flag,
  type Labels,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
  stateSet,
} from "../../../src/http/metrics/family.ts";
import type { DownloadReading, ReplicaSnapshot } from "../../replicas/context/ports.ts";
import { namedReplicas, REPLICA_LABELS, type Scrape } from "./scrape.ts";

/** Reported as 0 from the start: Prometheus sees an increase only after an earlier value. */
const USUAL_EXITS: Readonly<Record<string, number>> = {
  EngineCrashed: 0,
  EngineDegraded: 0,
  EngineHung: 0,
  EngineKilled: 0,
  EngineNeverHealthy: 0,
  EngineOutOfMemory: 0,
};
const PROBES = ["health", "request"] as const;

function each(
  read: (replica: ReplicaSnapshot, labels: Labels) => Iterable<MetricSample>,
): (scrape: Scrape) => Iterable<MetricSample> {
  return function* (scrape) {
    for (const [replica, labels] of namedReplicas(scrape)) yield* read(replica, labels);
  };
}

function replicaGauge(
  name: string,
  help: string,
  read: (replica: ReplicaSnapshot) => number | undefined,
): MetricFamily<Scrape> {
  const samples = each((replica, labels) => sampleIfKnown(read(replica), labels));
  return { name, type: "gauge", help, labels: REPLICA_LABELS, read: samples };
}

export const replicaFamilies: readonly MetricFamily<Scrape>[] = [
  {
    name: "metalbridge_replica_info",
    type: "gauge",
    help: "Engine and revision of the replica. The value is always 1.",
    labels: [...REPLICA_LABELS, "runtime", "revision"],
    read: each(({ runtime, revision }, labels) => flag(true, { ...labels, runtime, revision })),
  },
  {
    name: "metalbridge_replica_phase",
    type: "gauge",
    help: "1 for the current phase of the replica, 0 for the others.",
    labels: [...REPLICA_LABELS, "phase"],
    read: each(({ phase }, labels) => stateSet(labels, "phase", REPLICA_PHASES, phase)),
  },
  {
    name: "metalbridge_replica_reason",
    type: "gauge",
    help: "Reason code of the phase, as in status.reason. The value is always 1.",
    labels: [...REPLICA_LABELS, "reason"],
    read: each(({ reason }, labels) => flag(true, { ...labels, reason })),
  },
  {
    name: "metalbridge_replica_restarts_total",
    type: "counter",
    help: "Restarts of the engine after unexpected exits; kept across agent restarts.",
    labels: REPLICA_LABELS,
    read: each(({ restarts }, labels) => sampleIfKnown(restarts, labels)),
  },
  {
    name: "metalbridge_replica_exits_total",
    type: "counter",
    help: "Unexpected exits of the engine, by reason code; kept across agent restarts.",
    labels: [...REPLICA_LABELS, "reason"],
    read: each(function* ({ exits }, labels) {
      for (const [reason, value] of Object.entries({ ...USUAL_EXITS, ...exits }))
        yield { labels: { ...labels, reason }, value };
    }),
  },
  replicaGauge(
    "metalbridge_replica_download_received_bytes",
    "Bytes of the replica's weights that are on disk, during a download.",
    ({ download }) => download?.bytes,
  ),
  replicaGauge(
    "metalbridge_replica_download_size_bytes",
    "Size of the replica's weights, during a download; not reported while the size is unknown.",
    ({ download }) => download?.totalBytes,
  ),
  replicaGauge(
    "metalbridge_replica_download_remaining_seconds",
    "Estimated time until the download completes, at the speed of the last second.",
    ({ download }) => secondsLeft(download),
  ),
  replicaGauge(
    "metalbridge_replica_memory_claim_bytes",
    "Memory reserved for the replica; 0 without a reservation.",
    ({ claimBytes }) => claimBytes,
  ),
  replicaGauge(
    "metalbridge_replica_memory_footprint_bytes",
    "Memory footprint of the engine's processes, as last measured (about every 5 minutes, or 30 while it is idle).",
    ({ footprintBytes }) => footprintBytes,
  ),
  replicaGauge(
    "metalbridge_replica_start_time_seconds",
    "Start time of the running engine, in seconds since the epoch.",
    ({ startedAtMs }) => seconds(startedAtMs),
  ),
  replicaGauge(
    "metalbridge_replica_start_duration_seconds",
    "Startup time of the running engine: from process start until ready.",
    ({ startedAtMs, readyAtMs }) =>
      startedAtMs === undefined || readyAtMs === undefined
        ? undefined
        : seconds(Math.max(0, readyAtMs - startedAtMs)),
  ),
  {
    name: "metalbridge_replica_probe_duration_seconds",
    type: "histogram",
    help: "Latency of probes; probe health checks a serving engine, probe request generates one token.",
    labels: [...REPLICA_LABELS, "probe"],
    read: function* (scrape) {
      for (const [{ counts }, labels] of namedReplicas(scrape)) {
        for (const probe of PROBES)
          yield { labels: { ...labels, probe }, histogram: counts.probes[probe].seconds };
      }
    },
  },
  {
    name: "metalbridge_replica_probe_failures_total",
    type: "counter",
    help: "Probes that failed or timed out, by probe.",
    labels: [...REPLICA_LABELS, "probe"],
    read: each(function* ({ counts }, labels) {
      for (const probe of PROBES)
        yield { labels: { ...labels, probe }, value: counts.probes[probe].failures };
    }),
  },
];

/** Undefined while the size or speed is unknown, and while no bytes arrive. */
function secondsLeft(download: DownloadReading | undefined): number | undefined {
  const { bytes = 0, totalBytes, bytesPerSecond = 0 } = download ?? {};
  return totalBytes === undefined || bytesPerSecond === 0 ? undefined : (totalBytes - bytes) / bytesPerSecond;
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1_000;
}
