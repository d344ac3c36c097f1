/** Why an engine exited: by its exit status, and by what its log says where that decides. */
import type { ErrorCode } from "../../api/errors.ts";
import { truncate } from "../../util/text.ts";
import type { RunAtEnd } from "./last-run.ts";

/** An exit code, or the signal that ended it; "unknown" if no parent collected the status. */
export type Exit = { readonly code?: number; readonly signal?: string } | "unknown";

export interface ExitReason {
  readonly code: ErrorCode;
  readonly message: string;
}

/** What the log of the last run has to say. */
export interface FinalLogFacts {
  /** A cause that the engine's lines are known to mean. */
  readonly known: () => ExitReason | undefined;
  /** Its last line that may be shown; `isAtStart`: it never ran, so that none is a client's. */
  readonly lastLine: (isAtStart?: true) => string;
}

/** The reason by exit status; a cause in the log wins where the status says nothing of its own. */
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
          message: `the engine crashed (${describe(exit)}): ${lastLine()}`,
        }
      );
  }
}

/** The OS leaves no trace in the engine's log; the host's memory level is the evidence. */
function killed({ memory }: RunAtEnd): ExitReason {
  if (memory === undefined) {
    return {
      code: "EngineKilled",
      message: "killed (SIGKILL) by a user, or by the OS under memory pressure",
    };
  }
  return {
    code: "EngineOutOfMemory",
    message: `SIGKILL ended the engine while the host's memory was ${memory}: the system took its memory back`,
  };
}

function describe(exit: { readonly code?: number; readonly signal?: string }): string {
  return exit.signal ?? `exit code ${exit.code ?? "unknown"}`;
}

export const MAX_LINE_LENGTH = 300;
/** Of the end of a log, where its last line is wanted. */
const ENOUGH = 4_000;

export function lastLine(log: string): string {
  const end = log.slice(-ENOUGH).trimEnd();
  return shortenLogLine(end.slice(end.lastIndexOf("\n") + 1)) || "its log is empty";
}

/** Without the engine's own time stamp and level, and without the NULs of a log that was truncated or extended. */
export function shortenLogLine(line: string): string {
  const plain = line.replace(/[\s\p{Cc}]+/gu, " ").trim();
  return truncate(plain.replace(/^[\d.]+ [A-Z] /, ""), MAX_LINE_LENGTH);
}
