/** Metrics of the machine that the agent runs on. Readings that failed are absent, never zero. */
import { type MetricFamily, stateSet } from "../../../src/http/metrics/family.ts";
import { HOST_LABELS, hostGauge, hostLabels, type Scrape } from "./scrape.ts";

const PRESSURE_LEVELS = ["Normal", "Warning", "Critical", "Unknown"] as const;

export const agentHostFamilies: readonly MetricFamily<Scrape>[] = [
  hostGauge(
    "metalbridge_host_memory_claimed_bytes",
    "Total memory claimed by all replicas of this host.",
    (scrape) => scrape.claimedBytes,
  ),
  hostGauge(
    "metalbridge_host_memory_budget_bytes",
    "Memory budget of this host for all replicas: its GPU budget less systemReserve.",
    (scrape) => scrape.budgetBytes,
  ),
  hostGauge("metalbridge_host_memory_size_bytes", "Installed memory.", (scrape) => scrape.memory?.totalBytes),
  hostGauge(
    "metalbridge_host_memory_available_bytes",
    "Available memory.",
    (scrape) => scrape.memory?.availableBytes,
  ),
  hostGauge(
    "metalbridge_host_swap_used_bytes",
    "Swap space in use.",
    (scrape) => scrape.memory?.swapUsedBytes,
  ),
  {
    name: "metalbridge_host_memory_pressure",
    type: "gauge",
    help: "1 for the current memory pressure level, 0 for the others.",
    labels: [...HOST_LABELS, "level"],
    read: (scrape) => stateSet(hostLabels(scrape), "level", PRESSURE_LEVELS, scrape.memory?.pressure),
  },
  hostGauge(
    "metalbridge_host_disk_size_bytes",
    "Size of the volume that holds the model store.",
    (scrape) => scrape.disk?.totalBytes,
  ),
  hostGauge(
    "metalbridge_host_disk_free_bytes",
    "Free space on the volume that holds the model store.",
    (scrape) => scrape.disk?.freeBytes,
  ),
  hostGauge(
    "metalbridge_host_disk_reserve_bytes",
    "Free disk space that downloads must leave.",
    (scrape) => scrape.diskReserveBytes,
  ),
  hostGauge(
    "metalbridge_host_models_bytes",
    "Disk space used by stored models.",
    (scrape) => scrape.disk?.storeBytes,
  ),
];
