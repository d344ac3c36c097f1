/** Why llama-server ended: every failed start has exit code 1, so the end of its log decides. */
import type { ErrorCode } from "../../errors.ts";
import { lastRun } from "../start-line.ts";

/** An exit code, or the signal that ended it; "unknown" where nobody took the status. */
export type Exit = { readonly code?: number; readonly signal?: string } | "unknown";

export interface ExitReason {
  readonly code: ErrorCode;
  readonly message: string;
}

/** First match wins: the cause stands before its consequences. */
const CAUSES: readonly { readonly pattern: RegExp; readonly code: ErrorCode; readonly what: string }[] = [
  {
    pattern: /error: invalid argument: \S+/,
    code: "EngineFlagRefused",
    what: "the engine refused an argument",
  },
  {
    pattern: /error while handling argument "[^"]*": .*/,
    code: "EngineFlagRefused",
    what: "the engine refused an argument",
  },
  {
    pattern: /error: the argument has been removed\..*/,
    code: "EngineFlagRefused",
    what: "the engine refused an argument",
  },
  {
    pattern: /expected value for argument.*/,
    code: "EngineFlagRefused",
    what: "the engine refused an argument",
  },
  { pattern: /couldn't bind HTTP server socket.*/, code: "EnginePortTaken", what: "the port is taken" },
  {
    pattern:
      /.*(?:out of memory|out of device memory|insufficient memory|not enough memory|erroroutofmemory|failed to allocate|allocation failed|cannot allocate memory|bad_alloc).*/i,
    code: "EngineOutOfMemory",
    what: "the engine ran out of memory",
  },
  {
    pattern: /.*(?:does not divide n_embd_head|requires flash_attn|requires flash attention).*/,
    code: "EngineSettingsRefused",
    what: "the engine refused the settings for this model",
  },
  {
    pattern: /.*(?:failed to open (?:GGUF )?file|No such file or directory).*/,
    code: "EngineModelMissing",
    what: "a file is missing",
  },
  {
    pattern:
      /.*(?:invalid magic characters|unknown model architecture|not within the file bounds|data is not within|missing tensor|wrong shape|failed to read|unsupported GGUF|invalid gguf|tensor '.*' has invalid).*/i,
    code: "EngineBadModel",
    what: "the engine could not load the model",
  },
  {
    pattern: /.*(?:exiting due to model loading error|error loading model).*/i,
    code: "EngineBadModel",
    what: "the engine could not load the model",
  },
  {
    pattern: /.*(?:error while loading shared libraries|Library not loaded|dyld.*not found).*/,
    code: "RuntimeBroken",
    what: "the engine's program is not installed completely",
  },
];

const LONGEST_LINE = 300;

export function classifyExit(exit: Exit, logTail: string): ExitReason {
  const log = lastRun(logTail);
  if (exit === "unknown")
    return fromLog(log) ?? { code: "EngineEndUnknown", message: "the engine ended; how is not known" };
  if (exit.code === 126)
    return { code: "RuntimeNotExecutable", message: `the engine cannot be executed: ${lastLine(log)}` };
  if (exit.code === 127)
    return { code: "RuntimeNotInstalled", message: `the engine was not found: ${lastLine(log)}` };
  if (exit.code === 0) {
    return {
      code: "EngineKilled",
      message: "the engine ended by itself with exit code 0, as after a request to end",
    };
  }
  switch (exit.signal) {
    case "SIGTERM":
    case "SIGINT":
    case "SIGHUP":
      return { code: "EngineKilled", message: `${exit.signal} ended the engine` };
    case "SIGKILL":
      return {
        code: "EngineKilled",
        message: "SIGKILL ended the engine: somebody killed it, or the system for want of memory",
      };
    default:
      return (
        fromLog(log) ?? {
          code: "EngineCrashed",
          message: `the engine ended with ${describe(exit)}: ${lastLine(log)}`,
        }
      );
  }
}

/** Lines after which a running llama-server answers its health probe and fails every request. */
const DEGRADED = [
  /.*kIOGPUCommandBufferCallbackErrorOutOfMemory.*/,
  /.*command buffer \d+ failed with status.*/,
  /.*llama_decode: failed to decode, ret = -3.*/,
];

/** The first such line of the last run. */
export function findDegraded(logTail: string): string | undefined {
  const log = lastRun(logTail);
  for (const pattern of DEGRADED) {
    const match = pattern.exec(log);
    if (match !== null) return shorten(match[0]);
  }
  return undefined;
}

function fromLog(log: string): ExitReason | undefined {
  for (const { pattern, code, what } of CAUSES) {
    const match = pattern.exec(log);
    if (match !== null) return { code, message: `${what}: ${shorten(match[0])}` };
  }
  return undefined;
}

function describe(exit: { readonly code?: number; readonly signal?: string }): string {
  return exit.signal ?? `exit code ${exit.code ?? "unknown"}`;
}

function lastLine(log: string): string {
  return shorten(log.trimEnd().split("\n").at(-1) ?? "") || "its log is empty";
}

/** Without the engine's own time stamp and level. */
function shorten(line: string): string {
  return line
    .trim()
    .replace(/^[\d.]+ [A-Z] /, "")
    .replace(/\s+/g, " ")
    .slice(0, LONGEST_LINE);
}
