/** Determines why a native program exited. Its log may contain text of clients once it was ready, and is not quoted then. */
import type { ErrorCode } from "../../api/errors.ts";
import { type Exit, type ExitReason, exitReasonOf, lastLine } from "../contract/exit.ts";
import { lastRun, type RunAtEnd, START_LINE } from "../contract/last-run.ts";

/** Messages of common language runtimes. */
const CAUSES: readonly { readonly pattern: RegExp; readonly code: ErrorCode; readonly what: string }[] = [
  { pattern: /address already in use|EADDRINUSE/i, code: "EnginePortTaken", what: "the port is taken" },
  {
    pattern: /out of memory|cannot allocate memory|bad_alloc|MemoryError/i,
    code: "EngineOutOfMemory",
    what: "the program ran out of memory",
  },
];

export function classifyExit(exit: Exit, logTail: string, run: RunAtEnd = { wasReady: false }): ExitReason {
  const log = lastRun(logTail);
  if (exit !== "unknown" && exit.code === 0 && !run.wasReady) {
    const message = `the program exited with code 0 before it was ready; it must stay in the foreground: ${lastLine(log)}`;
    return { code: "EngineCrashed", message };
  }
  const cause = run.wasReady ? undefined : CAUSES.find(({ pattern }) => pattern.test(log));
  return exitReasonOf(exit, run, {
    known: () => cause && { code: cause.code, message: `${cause.what}: ${lastLine(log)}` },
    lastLine: () => (run.wasReady ? "its log is on the host" : lastLine(log)),
  });
}

/** Only lines of the agent, because any other line may contain text of clients. */
export function ownLines(log: string): string {
  return log
    .split("\n")
    .filter((line) => line.includes(START_LINE))
    .join("\n");
}
