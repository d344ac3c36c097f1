/** One log holds many runs of an engine: each begins with this line, so that an old failure is not read as a new one. */

export const START_LINE = "--- metalbridge starts the engine at";

/** The part of a log that belongs to the last run; all of it where the start is no longer in it. */
export function lastRun(logTail: string): string {
  const at = logTail.lastIndexOf(START_LINE);
  return at < 0 ? logTail : logTail.slice(logTail.indexOf("\n", at) + 1);
}
