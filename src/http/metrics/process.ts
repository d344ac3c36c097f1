/** The standard process metrics of Prometheus. */

import type { Clock } from "../../util/ports.ts";
import { type MetricFamily, sampleIfKnown } from "./family.ts";

export interface ProcessFacts {
  readonly cpuSeconds: number;
  readonly residentBytes: number;
  readonly heapUsedBytes: number;
  /** Unix time. */
  readonly startedAtSeconds: number;
}

/** Values of this process. */
export function processFacts(clock: Pick<Clock, "nowMs">): ProcessFacts {
  const { user, system } = process.cpuUsage();
  const { rss: residentBytes, heapUsed: heapUsedBytes } = process.memoryUsage();
  const startedAtSeconds = clock.nowMs() / 1_000 - process.uptime();
  return { cpuSeconds: (user + system) / 1e6, residentBytes, heapUsedBytes, startedAtSeconds };
}

export const processFamilies: readonly MetricFamily<{ readonly process: ProcessFacts }>[] = [
  {
    name: "process_cpu_seconds_total",
    type: "counter",
    help: "CPU time of this process, user and system.",
    read: ({ process }) => sampleIfKnown(process.cpuSeconds),
  },
  {
    name: "process_resident_memory_bytes",
    type: "gauge",
    help: "Resident memory of this process.",
    read: ({ process }) => sampleIfKnown(process.residentBytes),
  },
  {
    name: "process_start_time_seconds",
    type: "gauge",
    help: "Start time of this process, in seconds since the epoch.",
    read: ({ process }) => sampleIfKnown(process.startedAtSeconds),
  },
  {
    name: "nodejs_heap_size_used_bytes",
    type: "gauge",
    help: "JavaScript heap in use.",
    read: ({ process }) => sampleIfKnown(process.heapUsedBytes),
  },
];
