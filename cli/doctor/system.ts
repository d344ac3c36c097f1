/** Input and output of the readers of one operating system. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import type {
  FoundEngine,
  Reachability,
  Reading,
  Readings,
  TakenReadings,
} from "../../src/doctor/readings.ts";
import type { Listener, RunningProgram } from "../../src/macos/doctor/programs.ts";
import { readTool } from "../../src/macos/doctor/reading.ts";
import type { RunTool } from "../../src/util/command.ts";

export interface Tools {
  readonly run: RunTool;
  readonly config: AgentConfig;
  /** Time limit of each reading. */
  readonly limitMs: number;
  readonly tryReach: (address: string) => Promise<Reachability>;
  readonly engines: Promise<readonly FoundEngine[]>;
  /** Name or address of the API server; undefined without a kubeconfig. */
  readonly server: string | undefined;
  /** The local address of the route to the API server. */
  readonly routed: Promise<string | undefined>;
}

/** Programs and ports are unclassified here; gather.ts marks the ones that belong to Metalbridge. */
export type SystemReadings = Omit<TakenReadings, "processes" | "ports"> & {
  readonly programs?: Reading<readonly RunningProgram[]>;
  readonly listeners?: Reading<readonly Listener[]>;
  readonly ephemeral?: Reading<readonly [number, number] | undefined>;
};

/** Reads the limit in a shell. Node raises its own limit to the maximum, which child processes inherit. */
export function readFileLimit(run: RunTool): Promise<Reading<Readings["fileLimit"]>> {
  return readTool(run, ["sh", "-c", "ulimit -n"], (text) => {
    const limit = text.trim();
    const files = limit === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(limit);
    return Number.isSafeInteger(files) && files > 0 ? { files, of: "this user's session" } : undefined;
  });
}
