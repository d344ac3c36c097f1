/** engine.json: what was reserved and started for a replica. It is on disk before the engine, so it outlives both. */
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Moment } from "../../../src/replica/desired.ts";
import type { RunRecord } from "../../../src/replica/observed.ts";
import { clearRunFiles, readEngineRecord, writeEngineRecord } from "../../process/run-directory.ts";

const stopSchema = z.object({
  why: z.enum([
    "deleted",
    "drained",
    "unwanted",
    "revision",
    "moved",
    "agentStopped",
    "evicted",
    "unloaded",
    "hung",
    "neverHealthy",
    "requestFailed",
    "degraded",
  ]),
  startedAtMs: z.number(),
  deadlineMs: z.number(),
  because: z.string().optional(),
});

/** Times are wall times here: they have to survive the agent. */
const engineFileSchema = z.object({
  version: z.literal(1),
  runId: z.string().min(1),
  uid: z.string().min(1),
  namespace: z.string().min(1),
  name: z.string().min(1),
  service: z.string(),
  runtime: z.string(),
  mode: z.enum(["chat", "embedding", "rerank"]),
  revision: z.string(),
  address: z.string(),
  port: z.number().int(),
  claimBytes: z.number().min(0),
  drainSeconds: z.number().min(0),
  argv: z.array(z.string()),
  startedAtMs: z.number(),
  readyAtMs: z.number().optional(),
  contextPerSlot: z.number().optional(),
  /** Checksums of the weights it runs on, so that they are known to be in use before anything else is. */
  contents: z.array(z.string()).optional(),
  stop: stopSchema.optional(),
});

export type EngineFile = z.output<typeof engineFileSchema>;

/** What the directory holds; "unreadable" when there is something that this agent cannot understand. */
export function readEngineFile(dir: string): EngineFile | undefined | "unreadable" {
  const content = readEngineRecord(dir);
  if (content === undefined) return undefined;
  const parsed = engineFileSchema.safeParse(content);
  return parsed.success ? parsed.data : "unreadable";
}

/** Synced to disk before it returns. */
export function writeEngineFile(dir: string, file: EngineFile): void {
  writeEngineRecord(dir, file);
}

export function hasEngineFile(dir: string): boolean {
  return existsSync(join(dir, "engine.json"));
}

/** Takes away the run and its reservation; the log and the replica's history stay. */
export function removeEngineFile(dir: string): void {
  clearRunFiles(dir);
  rmSync(join(dir, "engine.json"), { force: true });
}

/** The planner's view, on this process's clock. A wall clock that went back cannot put a time into the future. */
export function recordOf(file: EngineFile, moment: Moment): RunRecord {
  const past = (wallMs: number): number => Math.min(moment.monotonicMs, toMonotonic(wallMs, moment));
  const { stop } = file;
  return {
    runId: file.runId,
    revision: file.revision,
    port: file.port,
    claimBytes: file.claimBytes,
    startedAt: past(file.startedAtMs),
    drainSeconds: file.drainSeconds,
    ...(file.readyAtMs === undefined ? {} : { readyAt: past(file.readyAtMs) }),
    ...(stop === undefined
      ? {}
      : {
          stop: {
            why: stop.why,
            startedAt: past(stop.startedAtMs),
            deadlineAt: past(stop.startedAtMs) + Math.max(0, stop.deadlineMs - stop.startedAtMs),
            ...(stop.because === undefined ? {} : { because: stop.because }),
          },
        }),
  };
}

function toMonotonic(wallMs: number, moment: Moment): number {
  return wallMs - moment.wallMs + moment.monotonicMs;
}
