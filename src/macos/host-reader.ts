/** The readings of the agent's machine. A failed reading is absent or Unknown, never zero and never critical. */
import type { HostSystemInfo } from "../api/host.ts";

export type Pressure = "Normal" | "Warning" | "Critical" | "Unknown";

export interface MemoryReading {
  readonly totalBytes?: number;
  readonly availableBytes?: number;
  readonly swapUsedBytes?: number;
  readonly pressure: Pressure;
}

export interface HostReader {
  /** Facts that do not change while the machine runs; absent if they cannot be read. Called once. */
  readonly info: () => Promise<Omit<HostSystemInfo, "agentVersion">>;
  /** Cheap enough to call every few seconds. */
  readonly memory: () => Promise<MemoryReading>;
  /** Memory that cannot be paged out; undefined if the system does not report it. */
  readonly wiredBytes: () => Promise<number | undefined>;
  /** Memory that the system lets the GPU use, from the operator's limit or the recorded table; undefined if both are missing. */
  readonly gpuBudgetBytes: () => Promise<number | undefined>;
  /** Memory footprint of one process; undefined if the process exited or cannot be read. */
  readonly footprintBytes: (pid: number) => Promise<number | undefined>;
}
