/** Why oMLX exited, and what it means when it refuses a load: read from its own words. Pure. */
import type { ErrorCode } from "../../api/errors.ts";
import { type Exit, type ExitReason, exitReasonOf, lastLine, shortenLogLine } from "../contract/exit.ts";
import { lastRun, type RunAtEnd, START_LINE } from "../contract/last-run.ts";

/** First match wins. */
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

/** Every model of a daemon goes with it, so each of its replicas says that it was not the model alone. */
export function classifyExit(exit: Exit, logTail: string, run: RunAtEnd = { wasReady: false }): ExitReason {
  const log = ownLines(lastRun(logTail));
  const { code, message } = exitReasonOf(exit, run, {
    known: () => {
      const cause = CAUSES.find(({ pattern }) => pattern.test(log));
      return cause && { code: cause.code, message: `${cause.what}: ${lineWith(cause.pattern, log)}` };
    },
    lastLine: () => lastLine(log),
  });
  return { code, message: `oMLX ended, and all its models with it: ${message}` };
}

/** By the status of the answer to a load, and its words. Undefined: it may succeed later. */
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

/** Lines of its own logger that belong to no request, and what it says before it has one: the others may hold clients' text. */
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
