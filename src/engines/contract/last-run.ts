/** The last run of an engine: its part of the log, and facts about a finished run. */

/** First line of each run in a log, so that an old failure is not mistaken for a new one. */
export const START_LINE = "--- metalbridge starts the engine at";

/** The part of a log that belongs to the last run; the complete log if it does not contain the start. */
export function lastRun(logTail: string): string {
  const at = logTail.lastIndexOf(START_LINE);
  return at < 0 ? logTail : logTail.slice(logTail.indexOf("\n", at) + 1);
}

/** Facts about a finished run in addition to its exit and its log. */
export interface RunAtEnd {
  /** The engine answered a real request once, so it had accepted its arguments and its model. */
  readonly wasReady: boolean;
  /** Memory level of the host when it exited; absent if normal or unknown. */
  readonly memory?: "short" | "critical";
}
