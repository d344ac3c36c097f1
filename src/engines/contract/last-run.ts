/** The last run of an engine: where its log begins, and what else is known of it when it has exited. */

/** One log holds many runs: each begins with this line, so that an old failure is not read as a new one. */
export const START_LINE = "--- metalbridge starts the engine at";

/** The part of a log that belongs to the last run; all of it where the start is no longer in it. */
export function lastRun(logTail: string): string {
  const at = logTail.lastIndexOf(START_LINE);
  return at < 0 ? logTail : logTail.slice(logTail.indexOf("\n", at) + 1);
}

/** What is known of a finished run beside its exit and its log. */
export interface RunAtEnd {
  /** It answered a real request once, so it had taken its arguments and its model. */
  readonly wasReady: boolean;
  /** Memory level of the host when it exited; absent if normal or unknown. */
  readonly memory?: "short" | "critical";
}
