/** What the agent reads of its machine. A reading that fails is absent or Unknown, never zero and never critical. */
import type { HostSystemInfo } from "../api/host.ts";

export type Pressure = "Normal" | "Warning" | "Critical" | "Unknown";

export interface MemoryReading {
  readonly totalBytes?: number;
  readonly availableBytes?: number;
  readonly swapUsedBytes?: number;
  readonly pressure: Pressure;
}

export interface HostReader {
  /** What does not change while the machine runs; asked once, absent where it cannot be read. */
  readonly info: () => Promise<Omit<HostSystemInfo, "agentVersion">>;
  /** Cheap enough for every few seconds. */
  readonly memory: () => Promise<MemoryReading>;
  /** What cannot be paged out; undefined where the system does not tell. */
  readonly wiredBytes: () => Promise<number | undefined>;
  /** What the system lets the GPU use, from the operator's limit or the recorded table; undefined where neither speaks. */
  readonly gpuBudgetBytes: () => Promise<number | undefined>;
  /** What one process really takes; undefined when it is gone or cannot be read. */
  readonly footprintBytes: (pid: number) => Promise<number | undefined>;
}
