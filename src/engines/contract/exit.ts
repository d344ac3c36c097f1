/** Determines why an engine exited, from its exit status and, if necessary, its log. */
import type { ErrorCode } from "../../api/errors.ts";
import { truncate } from "../../util/text.ts";
import type { RunAtEnd } from "./last-run.ts";

/** An exit code, or the signal that terminated the process; "unknown" if no parent collected the status. */
export type Exit = { readonly code?: number; readonly signal?: string } | "unknown";

export interface ExitReason {
  readonly code: ErrorCode;
  readonly message: string;
}

/** Facts in the log of the last run. */
export interface FinalLogFacts {
  /** A known cause in the log. */
  readonly known: () => ExitReason | undefined;
  /** The last line that may be shown. `isAtStart`: the engine never ran, so no line contains text of a client. */
  readonly lastLine: (isAtStart?: true) => string;
}

/** The reason according to the exit status; a cause in the log takes precedence if the status is not specific. */
export function exitReasonOf(exit: Exit, run: RunAtEnd, { known, lastLine }: FinalLogFacts): ExitReason {
  if (exit === "unknown")
    return known() ?? { code: "EngineEndUnknown", message: "the engine exited; exit status unknown" };
  if (exit.code === 126)
    return { code: "RuntimeNotExecutable", message: `the engine cannot be executed: ${lastLine(true)}` };
  if (exit.code === 127)
    return { code: "RuntimeNotInstalled", message: `the engine was not found: ${lastLine(true)}` };
  if (exit.code === 0) {
    return {
      code: "EngineKilled",
      message: "the engine exited with code 0 although it was not asked to stop",
    };
  }
  switch (exit.signal) {
    case "SIGTERM":
    case "SIGINT":
    case "SIGHUP":
      return { code: "EngineKilled", message: `${exit.signal} ended the engine` };
    case "SIGKILL":
      return killed(run);
    default:
      return (
        known() ?? {
          code: "EngineCrashed",
          message: `the engine crashed (${exit.signal ?? `exit code ${exit.code ?? "unknown"}`}): ${lastLine()}`,
        }
      );
  }
}

/** The OS leaves no trace in the log of the engine, so the memory level of the host is the evidence. */
function killed({ memory }: RunAtEnd): ExitReason {
  if (memory === undefined) {
    return {
      code: "EngineKilled",
      message: "killed (SIGKILL) by a user, or by the OS under memory pressure",
    };
  }
  return {
    code: "EngineOutOfMemory",
    message: `killed (SIGKILL) while the host's memory was ${memory}: the OS reclaimed its memory`,
  };
}

export const MAX_LINE_LENGTH = 300;
/** Length of the end of a log that contains its last line. */
const TAIL_LENGTH = 4_000;

export function lastLine(log: string): string {
  const end = log.slice(-TAIL_LENGTH).trimEnd();
  return shortenLogLine(end.slice(end.lastIndexOf("\n") + 1)) || "its log is empty";
}

/** Removes the time stamp and level of the engine, and the NULs of a log that was truncated or extended. */
export function shortenLogLine(line: string): string {
  const plain = line.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return truncate(plain.replace(/^[\d.]+ [A-Z] /, ""), MAX_LINE_LENGTH);
}
