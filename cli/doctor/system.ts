/** What the readers of one system get, and what they give. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import type { FoundEngine, Reach, Reading, Readings, TakenReadings } from "../../src/doctor/readings.ts";
import type { Listener, RunningProgram } from "../../src/macos/doctor/programs.ts";
import { readTool } from "../../src/macos/doctor/reading.ts";
import type { RunTool } from "../../src/util/command.ts";

export interface Tools {
  readonly run: RunTool;
  readonly config: AgentConfig;
  /** For each reading. */
  readonly limitMs: number;
  readonly tryReach: (address: string) => Promise<Reach>;
  readonly engines: Promise<readonly FoundEngine[]>;
  /** Name or address of the API server; undefined without a kubeconfig. */
  readonly server: string | undefined;
  /** The local address of the route to it. */
  readonly routed: Promise<string | undefined>;
}

/** Programs and ports are not judged before it is known which of them are ours. */
export type SystemReadings = Omit<TakenReadings, "processes" | "ports"> & {
  readonly programs?: Reading<readonly RunningProgram[]>;
  readonly listeners?: Reading<readonly Listener[]>;
  readonly ephemeral?: Reading<readonly [number, number] | undefined>;
};

/** Node raises its own limit to the highest that it may have; what it starts inherits that. */
export function readFileLimit(run: RunTool): Promise<Reading<Readings["fileLimit"]>> {
  return readTool(run, ["sh", "-c", "ulimit -n"], (text) => {
    const limit = text.trim();
    const files = limit === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(limit);
    return Number.isSafeInteger(files) && files > 0 ? { files, of: "this user's session" } : undefined;
  });
}
