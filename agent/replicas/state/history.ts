/** history.json: what a replica keeps from run to run: its port, its crashes, how it last ended, what it went through. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type ErrorCode, errorCatalogue } from "../../../src/api/errors.ts";
import { transitionSchema } from "../../../src/api/inference-replica.ts";
import type { ReplicaState } from "./state.ts";

const exitSchema = z.object({
  code: z.number().optional(),
  signal: z.string().optional(),
  killedByUs: z.boolean(),
  reason: z.custom<ErrorCode>((value) => typeof value === "string" && Object.hasOwn(errorCatalogue, value)),
  message: z.string(),
  at: z.string(),
  logTail: z.string(),
});

const historySchema = z.object({
  version: z.literal(1),
  port: z.number().int().optional(),
  restarts: z.number().int().min(0).default(0),
  crashesInARow: z.number().int().min(0).default(0),
  backoffUntilMs: z.number().optional(),
  recordedRunId: z.string().optional(),
  /** The runtime's version and the weights that a start cannot work with; absent while it is not known to be so. */
  hopelessWith: z.string().optional(),
  hopelessWeights: z.string().optional(),
  lastExit: exitSchema.optional(),
  /** How often it ended unasked, by code. */
  exits: z.record(z.string(), z.number().int().min(0)).default({}),
  /** Set while the replica may not run because the host's memory was short. */
  eviction: z.object({ atMs: z.number(), how: z.enum(["evict", "unload"]), because: z.string() }).optional(),
  /** The newest evictions, on the wall clock. */
  evictedAtMs: z.array(z.number()).default([]),
  transitions: z.array(transitionSchema).default([]),
});

export type History = z.output<typeof historySchema>;
export type HistoryExit = z.output<typeof exitSchema>;

const EMPTY: History = {
  version: 1,
  restarts: 0,
  crashesInARow: 0,
  exits: {},
  evictedAtMs: [],
  transitions: [],
};

/** Nothing here is needed for safety, so what cannot be read counts as empty. */
export function readHistory(dir: string): History {
  try {
    const parsed = historySchema.safeParse(JSON.parse(readFileSync(join(dir, "history.json"), "utf8")));
    return parsed.success ? parsed.data : EMPTY;
  } catch {
    return EMPTY;
  }
}

/** In memory first: a full disk must hold up neither a stop nor a start. */
export function keepHistory(state: ReplicaState, history: History): void {
  state.past.history = history;
  try {
    writeHistory(state.dir, history);
  } catch (err) {
    state.log.warn({ err }, "could not write the replica's history");
  }
}

export function writeHistory(dir: string, history: History): void {
  const path = join(dir, "history.json");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.tmp`, JSON.stringify(history), { mode: 0o600 });
  renameSync(`${path}.tmp`, path);
}
