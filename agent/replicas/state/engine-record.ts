/** engine.json: the reservation and the start of a replica's engine. It is written before the engine starts, and survives agent and engine. */
import { z } from "zod";
import { readRecord, rewriteRecord } from "../../../src/supervise/run-directory.ts";
import type { Moment } from "../../../src/util/moment.ts";
import { FORCED_STOPS, GRACEFUL_STOPS, type RunRecord, type Stop } from "../evidence/observed.ts";

const stopSchema = z.object({
  why: z.enum([...GRACEFUL_STOPS, ...FORCED_STOPS]),
  startedAtMs: z.number(),
  deadlineMs: z.number(),
  latestMs: z.number().optional(),
  withdrawnAtMs: z.number().optional(),
  because: z.string().optional(),
});

/** Times are wall times, because they must survive the agent. Unknown fields belong to the engine's instance and are kept. */
const engineFileSchema = z.looseObject({
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
  startedAtMs: z.number(),
  readyAtMs: z.number().optional(),
  contextPerSlot: z.number().optional(),
  /** Checksums of the loaded weights, so that a new agent knows first of all that they are in use. */
  contents: z.array(z.string()).optional(),
  stop: stopSchema.optional(),
});

export type EngineFile = z.output<typeof engineFileSchema>;

/** The record in the directory; "unreadable" if this agent cannot parse it. */
export function readEngineFile(dir: string): EngineFile | undefined | "unreadable" {
  const content = readRecord(dir);
  if (content === undefined) return undefined;
  const parsed = engineFileSchema.safeParse(content);
  return parsed.success ? parsed.data : "unreadable";
}

/** Resolves once the record is synced to disk. */
export function writeEngineFile(dir: string, file: EngineFile): Promise<void> {
  return rewriteRecord(dir, file);
}

/** Converts the record to this process's clock. A wall clock that was set back cannot move a time into the future. */
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
    readyAt: file.readyAtMs === undefined ? undefined : past(file.readyAtMs),
    stop: stop === undefined ? undefined : stopOf(stop, past(stop.startedAtMs), moment),
  };
}

/** All times keep their distance from the start of the stop. */
function stopOf(
  { why, startedAtMs, deadlineMs, latestMs, withdrawnAtMs, because }: z.output<typeof stopSchema>,
  startedAt: number,
  { monotonicMs }: Moment,
): Stop {
  const from = (wallMs: number): number => startedAt + wallMs - startedAtMs;
  return {
    why,
    startedAt,
    deadlineAt: Math.max(startedAt, from(deadlineMs)),
    latestAt: latestMs === undefined ? undefined : from(latestMs),
    withdrawnAt: withdrawnAtMs === undefined ? undefined : Math.min(monotonicMs, from(withdrawnAtMs)),
    because,
  };
}

/** Converts a stop to wall times, which survive the agent. */
export function storedStopOf(stop: Stop, moment: Moment): NonNullable<EngineFile["stop"]> {
  const toWall = (at: number): number => moment.wallMs + at - moment.monotonicMs;
  const { why, latestAt, withdrawnAt, because } = stop;
  return {
    why,
    startedAtMs: toWall(stop.startedAt),
    deadlineMs: toWall(stop.deadlineAt),
    latestMs: latestAt === undefined ? undefined : toWall(latestAt),
    withdrawnAtMs: withdrawnAt === undefined ? undefined : toWall(withdrawnAt),
    because,
  };
}

function toMonotonic(wallMs: number, moment: Moment): number {
  return wallMs - moment.wallMs + moment.monotonicMs;
}
