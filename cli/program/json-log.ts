/** The log of programs that run for long: one JSON line per decision or change, on standard error or in a file. */
import { pino } from "pino";
import type { Log } from "../../src/util/ports.ts";
import type { LogFile } from "./log-file.ts";

/** Fields that may hold a credential: they are removed from every log line. */
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

const MAX_UNWRITTEN_BYTES = 64 << 10;

/** Every line has the `bindings`, which identify this process among others of its kind. */
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
    file ?? standardError(),
  );
}

/** A file on a full disk loses lines, and the program runs on. */
function standardError(): ReturnType<typeof pino.destination> {
  const destination = pino.destination({ fd: 2, sync: true, maxLength: MAX_UNWRITTEN_BYTES });
  destination.on("error", () => {});
  return destination;
}
