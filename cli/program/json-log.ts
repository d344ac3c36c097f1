/** The log of controller and agent: pino, one JSON line per decision or change, on standard error or in a file. */
import { pino } from "pino";
import type { Log } from "../../src/util/ports.ts";
import type { LogFile } from "./log-file.ts";

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

/** `bindings` are in every line: they identify this process among others of its kind. */
export function createJsonLog(
  level: string,
  bindings: Readonly<Record<string, unknown>> = {},
  file?: LogFile,
): Log {
  return pino(
    {
      level,
      base: { ...bindings },
      redact: { paths: REDACTED, censor: "[hidden]" },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    file ?? pino.destination({ fd: 2, sync: true }),
  );
}
