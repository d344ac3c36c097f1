/** The log of controller and agent: pino, one JSON line per decision or change, on standard error. */
import pino from "pino";
import type { Log } from "../src/ports.ts";

export const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Anything that could be a credential is cut out here, whoever logged it. */
const REDACTED = [
  "token",
  "*.token",
  "authorization",
  "*.authorization",
  "headers.authorization",
  "apiKey",
  "*.apiKey",
  "password",
  "*.password",
];

export function createJsonLog(level: string): Log {
  const timestamp = pino.stdTimeFunctions.isoTime;
  const formatters = { level: (label: string) => ({ level: label }) };
  const redact = { paths: REDACTED, censor: "[hidden]" };
  return pino({ level, redact, base: null, timestamp, formatters }, pino.destination({ fd: 2, sync: true }));
}
