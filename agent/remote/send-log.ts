/** Sends a replica's log to a client on another machine, no faster than the client and the limits of this host allow. */
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
  /** Maximum duration of one answer; a client that follows a log sends another request. */
  readonly maxMs: number;
  /** A client that reads nothing for this long is disconnected. */
  readonly stallMs: number;
}

export interface SentLog {
  /** The engine's folder; it may not exist yet. */
  readonly dir: string;
  readonly range: LogRange;
  readonly follow: boolean;
  readonly limits: LogLimits;
  readonly pace: RateLimiter;
  readonly clock: Clock;
  /** Aborted when the client disconnects or the agent stops. */
  readonly signal: AbortSignal;
}

/** Maximum delay of a new line. */
const POLL_MS = 500;

/** Sends the log and ends the response; the trailers have the reason for the end. */
export async function sendLog(response: ServerResponse, sent: SentLog): Promise<void> {
  response.writeHead(200, {
    "content-type": "text/plain; charset=utf-8",
    trailer: `${TRAILER_END}, ${TRAILER_LOSSES}`,
    connection: "close",
  });
  response.flushHeaders();
  const reader = await LogReader.open(sent.dir, sent.range, sent.signal);
  const end = await sendUntilEnd(response, reader, sent);
  if (end === "cut") return void response.destroy();
  response.addTrailers({ [TRAILER_END]: end, [TRAILER_LOSSES]: String(reader.losses) });
  response.end();
}

/** "cut": the client has disconnected, or is too slow. */
async function sendUntilEnd(
  response: ServerResponse,
  reader: LogReader,
  sent: SentLog,
): Promise<LogEnd | "cut"> {
  const { dir, follow, limits, clock, signal } = sent;
  const untilMs = clock.monotonicMs() + limits.maxMs;
  const existed = existsSync(dir);
  const budget = { bytes: limits.maxBytes, untilMs };
  for (;;) {
    const stopped = await sendNew(response, reader, sent, budget);
    if (stopped !== undefined) return stopped;
    if (!follow && !reader.isWaiting) return "read";
    if (existed && !existsSync(dir)) return "left";
    if (clock.monotonicMs() >= untilMs) return "time";
    await waitMs(clock, POLL_MS, signal);
    if (signal.aborted) return "cut";
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

/** False if the client has disconnected, or reads nothing for `stallMs`. */
function write(response: ServerResponse, bytes: Buffer, clock: Clock, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve(false);
    const finish = (isWritten: boolean): void => {
      cancel();
      response.off("drain", onDrain);
      response.off("close", onClose);
      resolve(isWritten);
    };
    const onDrain = (): void => finish(true);
    const onClose = (): void => finish(false);
    const cancel = clock.after(stallMs, onClose);
    response.once("drain", onDrain);
    response.once("close", onClose);
    if (response.write(bytes)) finish(true);
  });
}
