/** The machine that the agent runs on. Readings that failed are absent, never zero. */
import { type MetricFamily, sampleIfKnown, stateSet } from "../../../src/http/metrics/family.ts";
import { HOST_LABELS, hostLabels, type Scrape } from "./scrape.ts";

const PRESSURE_LEVELS = ["Normal", "Warning", "Critical", "Unknown"] as const;

export const agentHostFamilies: readonly MetricFamily<Scrape>[] = [
  {
    name: "metalbridge_host_memory_claimed_bytes",
    type: "gauge",
    help: "Total memory claimed by all replicas of this host.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.claimedBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_memory_budget_bytes",
    type: "gauge",
    help: "Memory budget of this host for all replicas: its GPU budget less systemReserve.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.budgetBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_memory_size_bytes",
    type: "gauge",
    help: "Installed memory.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.memory?.totalBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_memory_available_bytes",
    type: "gauge",
    help: "Available memory.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.memory?.availableBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_swap_used_bytes",
    type: "gauge",
    help: "Swap space in use.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.memory?.swapUsedBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_memory_pressure",
    type: "gauge",
    help: "1 for the current memory pressure level, 0 for the others.",
    labels: [...HOST_LABELS, "level"],
    read: (scrape) => stateSet(hostLabels(scrape), "level", PRESSURE_LEVELS, scrape.memory?.pressure),
  },
  {
    name: "metalbridge_host_disk_size_bytes",
    type: "gauge",
    help: "Size of the volume that holds the model store.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.disk?.totalBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_disk_free_bytes",
    type: "gauge",
    help: "Free space on the volume that holds the model store.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.disk?.freeBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_disk_reserve_bytes",
    type: "gauge",
    help: "Free disk space that downloads must leave.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.diskReserveBytes, hostLabels(scrape)),
  },
  {
    name: "metalbridge_host_models_bytes",
    type: "gauge",
    help: "Disk space used by stored models.",
    labels: HOST_LABELS,
    read: (scrape) => sampleIfKnown(scrape.disk?.storeBytes, hostLabels(scrape)),
  },
];
