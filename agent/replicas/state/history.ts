/** history.json: a replica's history across runs: its port, crashes, last exit and transitions. */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type ErrorCode, errorCatalog } from "../../../src/api/errors.ts";
import { transitionSchema } from "../../../src/api/inference-replica.ts";
import type { Moment } from "../../../src/util/moment.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { HistoryExit } from "../evidence/observed.ts";

const exitSchema = z.object({
  code: z.number().optional(),
  signal: z.string().optional(),
  killedByUs: z.boolean(),
  reason: z.custom<ErrorCode>((value) => typeof value === "string" && Object.hasOwn(errorCatalog, value)),
  message: z.string(),
  at: z.string(),
  logTail: z.string(),
});

const fileSchema = z.object({
  version: z.literal(1),
  port: z.number().int().optional(),
  restarts: z.number().int().min(0).default(0),
  crashesInARow: z.number().int().min(0).default(0),
  backoffUntilMs: z.number().optional(),
  recordedRunId: z.string().optional(),
  /** Set while the last run ended in a terminal failure. */
  terminal: z.object({ runtimeVersion: z.string(), weights: z.string().optional() }).optional(),
  lastExit: exitSchema.optional(),
  /** Unexpected exits, by code. */
  exits: z.record(z.string(), z.number().int().min(0)).default({}),
  /** Set while the replica may not run because the host's memory was short. */
  eviction: z.object({ atMs: z.number(), how: z.enum(["evict", "unload"]), because: z.string() }).optional(),
  /** The newest evictions, on the wall clock. */
  evictedAtMs: z.array(z.number()).default([]),
  transitions: z.array(transitionSchema).default([]),
});

export type History = z.output<typeof fileSchema>;

/** The history of earlier runs, and its times on this process's clock. */
export interface PastRuns {
  readonly history: History;
  /** `history.backoffUntilMs` on this process's clock. */
  readonly backoffUntil: number | undefined;
  readonly pressure: PressureTimes;
  /** Start of the download that is in progress or retried. */
  readonly fetchingSince?: number | undefined;
  /** Failures in a row. */
  readonly fetchFailures: number;
  readonly launchFailures: number;
}

/** Times of memory pressure, converted once from `history` to this process's clock. */
export interface PressureTimes {
  /** Since when the replica is evicted. */
  readonly evictedSince?: number;
  readonly evictedAt: readonly number[];
  /** When the OS killed the engine; absent if its last exit had another cause. */
  readonly killedAt?: number;
}

interface HistoryHolder {
  readonly dir: string;
  readonly log: Log;
  readonly past: PastRuns;
}

const EMPTY: History = {
  version: 1,
  restarts: 0,
  crashesInARow: 0,
  exits: {},
  evictedAtMs: [],
  transitions: [],
};

/** The history is not needed for safety, so an unreadable file counts as empty. */
export function readReplicaHistory(dir: string): History {
  try {
    const parsed = fileSchema.safeParse(JSON.parse(readFileSync(join(dir, "history.json"), "utf8")));
    return parsed.success ? parsed.data : EMPTY;
  } catch {
    return EMPTY;
  }
}

export function setPast(state: Pick<HistoryHolder, "past">, change: Partial<PastRuns>): void {
  (state as { past: PastRuns }).past = { ...state.past, ...change };
}

/** Changes memory first: a full disk must not block a stop or a start. */
export function saveHistory(state: HistoryHolder, history: History): void {
  setPast(state, { history });
  try {
    writeHistory(state.dir, history);
  } catch (err) {
    state.log.warn({ err }, "cannot write the replica's history");
  }
}

/** Another start may succeed: the weights were fetched again, or the engine has served since. */
export function clearTerminal(state: HistoryHolder): void {
  const { terminal, ...history } = state.past.history;
  if (terminal !== undefined) saveHistory(state, history);
}

export function writeHistory(dir: string, history: History): void {
  const path = join(dir, "history.json");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.tmp`, JSON.stringify(history), { mode: 0o600 });
  renameSync(`${path}.tmp`, path);
}

/** Converts the times on disk to this process's clock, but never into its future: the wall clock may have been set back. */
export function pressureTimesOf(history: History, { wallMs, monotonicMs }: Moment): PressureTimes {
  const past = (atMs: number): number => Math.min(monotonicMs, atMs - wallMs + monotonicMs);
  const { eviction, evictedAtMs, lastExit } = history;
  return {
    evictedAt: evictedAtMs.map(past),
    evictedSince: eviction === undefined ? undefined : past(eviction.atMs),
    killedAt: isSystemKill(lastExit) ? past(Date.parse(lastExit.at)) : undefined,
  };
}

/** Notes whether the OS killed the engine that has just exited. */
export function noteExit(state: HistoryHolder, exit: HistoryExit, now: number): void {
  const killedAt = isSystemKill(exit) ? now : undefined;
  setPast(state, { pressure: { ...state.past.pressure, killedAt } });
}

function isSystemKill(exit: HistoryExit | undefined): exit is HistoryExit {
  return exit?.signal === "SIGKILL" && !exit.killedByUs;
}
