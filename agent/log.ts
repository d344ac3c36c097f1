/** The agent's log: pino, one JSON line per decision or change, on standard output. */
import { pino } from "pino";
import type { Log } from "../src/ports.ts";

export function createLog(level: string, bindings: Record<string, unknown>): Log {
  return pino({
    level,
    base: bindings,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: ["token", "*.token", "authorization", "*.authorization"], censor: "[hidden]" },
  });
}
