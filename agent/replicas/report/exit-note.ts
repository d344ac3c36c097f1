/** The note of an Event about an engine's exit: the exit status and the last log lines. */

import { lastRun } from "../../../src/engines/contract/last-run.ts";
import type { EventInput } from "../../../src/kube/event/series.ts";
import { truncateBytes } from "../../../src/util/text.ts";

export interface ExitDetails {
  readonly code?: number | undefined;
  readonly signal?: string | undefined;
  readonly logTail: string;
}

/** Maximum length of a note that the API server accepts. */
const NOTE_BYTES = 1_024;
const LINES = 3;
const LINE_BYTES = 140;

/**
 * The message, the exit code or signal, and the last lines of the log; a long message is truncated to fit. Equal exits are
 * grouped into one Event, although their log lines contain different pids and times.
 */
export function exitNote(message: string, end: ExitDetails): Pick<EventInput, "note" | "sameAs"> {
  const description = exitDescription(end);
  const tail = ` (${description}; ${logEnding(end.logTail)})`;
  return { note: truncateBytes(message, NOTE_BYTES - Buffer.byteLength(tail)) + tail, sameAs: description };
}

function exitDescription({ code, signal }: ExitDetails): string {
  if (signal !== undefined) return `signal ${signal}`;
  return code === undefined ? "exit status unknown" : `exit code ${code}`;
}

function logEnding(logTail: string): string {
  const lines = lastRun(logTail).split("\n").map(clean);
  const last = lines.filter((line) => line !== "").slice(-LINES);
  if (last.length === 0) return "its log is empty";
  return `last log lines: ${last.map((line) => truncateBytes(line, LINE_BYTES)).join(" | ")}`;
}

/** Removes colors, and the NULs of a truncated log. */
function clean(line: string): string {
  return line.replace(/[\s\p{Cc}]+/gu, " ").trim();
}
