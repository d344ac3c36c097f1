/** Sends a replica's log to a reader on another machine: no faster than the reader and the limits of this host allow. */
import { existsSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { type LogEnd, TRAILER_END, TRAILER_LOSSES } from "../../src/api/access/remote.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { RateLimiter } from "../store/download/host-limits.ts";
import { type LogRange, LogReader } from "./log-reader.ts";

export interface LogLimits {
  /** Maximum size of one answer. */
  readonly maxBytes: number;
  /** Maximum duration of one answer; a client that follows a log asks again. */
  readonly maxMs: number;
  /** A reader that takes nothing for this long is cut off. */
  readonly stallMs: number;
}

export interface SentLog {
  /** The engine's folder; it may not exist yet. */
  readonly dir: string;
  readonly wanted: LogRange;
  readonly follow: boolean;
  readonly limits: LogLimits;
  readonly pace: RateLimiter;
  readonly clock: Clock;
  /** The reader has left, or the agent stops. */
  readonly signal: AbortSignal;
}

/** Maximum delay of a new line. */
const POLL_MS = 500;

/** Ends the response; the trailers say why. */
export async function sendLog(response: ServerResponse, sent: SentLog): Promise<void> {
  response.writeHead(200, {
    "content-type": "text/plain; charset=utf-8",
    trailer: `${TRAILER_END}, ${TRAILER_LOSSES}`,
    connection: "close",
  });
  response.flushHeaders();
  const { end, losses } = await pump(response, sent);
  if (end === undefined) return void response.destroy();
  response.addTrailers({ [TRAILER_END]: end, [TRAILER_LOSSES]: String(losses) });
  response.end();
}

type Pumped = { readonly end: LogEnd | undefined; readonly losses: number };

/** `end` is undefined if the reader has left, or is too slow. */
async function pump(response: ServerResponse, sent: SentLog): Promise<Pumped> {
  const { dir, wanted, follow, limits, clock, signal } = sent;
  const untilMs = clock.monotonicMs() + limits.maxMs;
  const wasThere = existsSync(dir);
  const reader = await LogReader.open(dir, wanted, signal);
  const budget = { bytes: limits.maxBytes, untilMs };
  const next = async (): Promise<LogEnd | "cut" | undefined> => {
    const stopped = await sendNew(response, reader, sent, budget);
    if (stopped !== undefined) return stopped;
    if (!follow && !reader.isWaiting) return "read";
    if (wasThere && !existsSync(dir)) return "left";
    if (clock.monotonicMs() >= untilMs) return "time";
    await waitMs(clock, POLL_MS, signal);
    return signal.aborted ? "cut" : undefined;
  };
  for (;;) {
    const end = await next();
    if (end !== undefined) return { end: end === "cut" ? undefined : end, losses: reader.losses };
  }
}

/** Sends everything that was appended since the last call. */
async function sendNew(
  response: ServerResponse,
  reader: LogReader,
  { pace, clock, limits, signal }: SentLog,
  budget: { bytes: number; readonly untilMs: number },
): Promise<"size" | "time" | "cut" | undefined> {
  for (const bytes of reader.read()) {
    budget.bytes -= bytes.length;
    if (budget.bytes < 0) return "size";
    if (clock.monotonicMs() >= budget.untilMs) return "time";
    await pace(bytes.length, signal)?.catch(() => undefined);
    if (signal.aborted || !(await write(response, bytes, clock, limits.stallMs))) return "cut";
  }
  return undefined;
}

/** False if the reader has left, or reads nothing for `stallMs`. */
function write(response: ServerResponse, bytes: Buffer, clock: Clock, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve(false);
    const finish = (isTaken: boolean): void => {
      cancel();
      response.off("drain", onDrain);
      response.off("close", onClose);
      resolve(isTaken);
    };
    const onDrain = (): void => finish(true);
    const onClose = (): void => finish(false);
    const cancel = clock.after(stallMs, onClose);
    response.once("drain", onDrain);
    response.once("close", onClose);
    if (response.write(bytes)) finish(true);
  });
}
