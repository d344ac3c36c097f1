/** Determines from oMLX's messages why it exited, or why it rejected a load. Pure. */
import type { ErrorCode } from "../../api/errors.ts";
import { type Exit, type ExitReason, exitReasonOf, lastLine, shortenLogLine } from "../contract/exit.ts";
import { lastRun, type RunAtEnd, START_LINE } from "../contract/last-run.ts";

/** The first match wins. */
const CAUSES: readonly { readonly pattern: RegExp; readonly code: ErrorCode; readonly what: string }[] = [
  { pattern: /address already in use/i, code: "EnginePortTaken", what: "oMLX's port is taken" },
  {
    pattern: /error: (?:unrecognized arguments|argument --|the following arguments)/,
    code: "EngineFlagRefused",
    what: "oMLX refused an argument",
  },
  { pattern: /Configuration error:/, code: "EngineSettingsRefused", what: "oMLX refused its configuration" },
  {
    pattern: /MemoryError|out of memory|Insufficient Memory|prepare count underflow/i,
    code: "EngineOutOfMemory",
    what: "oMLX ran out of memory",
  },
];

/** All models of a daemon stop with it, so the message of each replica states that the daemon exited. */
export function classifyExit(exit: Exit, logTail: string, run: RunAtEnd = { wasReady: false }): ExitReason {
  const log = ownLines(lastRun(logTail));
  const { code, message } = exitReasonOf(exit, run, {
    known: () => {
      const cause = CAUSES.find(({ pattern }) => pattern.test(log));
      return cause && { code: cause.code, message: `${cause.what}: ${lineWith(cause.pattern, log)}` };
    },
    lastLine: () => lastLine(log),
  });
  return { code, message: `oMLX exited with all its models: ${message}` };
}

/** The reason in the response to a load; undefined if the load may succeed later. */
export function omlxLoadFailure(status: number, words: string): ExitReason | undefined {
  const said = `oMLX: ${shortenLogLine(words)}`;
  if (status === 507) {
    const message = `${said}; nothing was evicted: unload what other clients of this server loaded, or stop a service on this host`;
    return { code: "EngineOutOfMemory", message };
  }
  if (status === 401 || status === 403) return { code: "RuntimeBroken", message: `${said} (its API key)` };
  if (status === 400 || status === 422 || status === 500) return { code: "EngineBadModel", message: said };
  return undefined;
}

/** Lines of oMLX's logger that belong to no request, and lines before the logger starts. Other lines may contain text of clients. */
export function ownLines(log: string): string {
  return log
    .split("\n")
    .filter((line) => LOGGED.test(line) || EARLY.test(line) || line.includes(START_LINE))
    .join("\n");
}

const LOGGED = /^\0*\d{4}-\d\d-\d\d[ T][\d:,.]+ - \S+ - [A-Z]+ - \[-?\] - /;
const EARLY = /^(?:omlx[ :]|Configuration error:|MemoryError|ERROR: +\[Errno \d+\] )/;

function lineWith(pattern: RegExp, log: string): string {
  return shortenLogLine(log.split("\n").findLast((line) => pattern.test(line)) ?? "");
}
