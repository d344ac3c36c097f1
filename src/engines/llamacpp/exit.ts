/** Determines why llama-server exited: all failed starts have exit code 1, so the end of its log decides. */

import type { ErrorCode } from "../../api/errors.ts";
import {
  type Exit,
  type ExitReason,
  exitReasonOf,
  lastLine,
  MAX_LINE_LENGTH,
  shortenLogLine,
} from "../contract/exit.ts";
import { lastRun, type RunAtEnd } from "../contract/last-run.ts";
import { isOwnLine, ownLines } from "./own-lines.ts";

interface Cause {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  readonly what: string;
  /** Occurs only before the engine serves. Afterwards the same words can only be text of a client that the log repeats. */
  readonly isAtStart?: true;
}

/**
 * The first match wins, because causes are listed before their consequences. A pattern must not begin with a part of variable
 * length, which takes quadratic time: one long line would stop the agent.
 */
const CAUSES: readonly Cause[] = [
  {
    isAtStart: true,
    pattern:
      /error: invalid argument: |error while handling argument "|error: the argument has been removed\.|expected value for argument/,
    code: "EngineFlagRefused",
    what: "the engine refused an argument",
  },
  { pattern: /couldn't bind HTTP server socket/, code: "EnginePortTaken", what: "the port is taken" },
  {
    pattern:
      /out of memory|out of device memory|insufficient memory|not enough memory|erroroutofmemory|failed to allocate|allocation failed|cannot allocate memory|bad_alloc/i,
    code: "EngineOutOfMemory",
    what: "the engine ran out of memory",
  },
  {
    isAtStart: true,
    pattern: /does not divide n_embd_head|requires flash_attn|requires flash attention/,
    code: "EngineSettingsRefused",
    what: "the engine refused the settings for this model",
  },
  {
    isAtStart: true,
    pattern: /failed to open (?:GGUF )?file|No such file or directory/,
    code: "EngineModelMissing",
    what: "a file is missing",
  },
  {
    isAtStart: true,
    pattern: /common_chat_templates_init: error|failed to apply template|chat template is not supported/,
    code: "EngineSettingsRefused",
    what: "the engine refused the chat template",
  },
  {
    isAtStart: true,
    pattern: /failed to (?:apply|load) lora adapter/,
    code: "EngineBadModel",
    what: "the engine could not load a LoRA adapter",
  },
  {
    isAtStart: true,
    pattern: /mismatch between text model|[Ff]ailed to load (?:CLIP|multimodal) model/,
    code: "EngineBadModel",
    what: "the engine could not load the projector",
  },
  {
    isAtStart: true,
    pattern:
      /invalid magic characters|unknown model architecture|not within the file bounds|data is not within|missing tensor|wrong shape|failed to read|unsupported GGUF|invalid gguf|tensor '[^'\n]{0,200}' has invalid/i,
    code: "EngineBadModel",
    what: "the engine could not load the model",
  },
  {
    isAtStart: true,
    pattern: /exiting due to model loading error|error loading model/i,
    code: "EngineBadModel",
    what: "the engine could not load the model",
  },
  {
    isAtStart: true,
    pattern: /error while loading shared libraries|Library not loaded|dyld.{0,200}not found/,
    code: "RuntimeBroken",
    what: "the engine's program is not installed completely",
  },
];

export function classifyExit(exit: Exit, logTail: string, run: RunAtEnd = { wasReady: false }): ExitReason {
  const log = lastRun(logTail);
  return exitReasonOf(exit, run, {
    known: () => fromLog(log, run),
    lastLine: (isAtStart) => lastLine(run.wasReady && !isAtStart ? ownLines(log) : log),
  });
}

/**
 * Lines after which a running llama-server may answer its health probe and fail every request. -2 is an allocation that
 * failed, -3 a computation; -1 is a request that was wrong, and 1 one that found no room and is tried in smaller parts.
 */
const DEGRADED = [
  /kIOGPUCommandBufferCallbackErrorOutOfMemory/,
  /command buffer \d{1,20} failed with status/,
  /failed to decode, ret = -[2-9]/,
  /Compute error/,
];

/** The first of these lines in the last run. */
export function findDegraded(logTail: string): string | undefined {
  const log = lastRun(logTail);
  for (const pattern of DEGRADED) {
    const match = pattern.exec(log);
    if (match !== null) return quoted(match);
  }
  return undefined;
}

function fromLog(log: string, { wasReady }: RunAtEnd): ExitReason | undefined {
  for (const { pattern, code, what, isAtStart } of CAUSES) {
    if (wasReady && isAtStart) continue;
    const match = pattern.exec(log);
    if (match !== null)
      return { code, message: `${what}: ${wasReady ? quoted(match) : shortenLogLine(lineOf(match))}` };
  }
  return undefined;
}

/** The matching line, or only the match if the line may contain text of a client. */
function quoted(match: RegExpExecArray): string {
  const line = lineOf(match);
  return shortenLogLine(isOwnLine(line) ? line : match[0]);
}

/** The matching line; only the surrounding part of a very long one. */
function lineOf({ input, index }: RegExpExecArray): string {
  const before = input.slice(Math.max(0, index - MAX_LINE_LENGTH / 2), index);
  const from = index - before.length + before.lastIndexOf("\n") + 1;
  const part = input.slice(from, index + MAX_LINE_LENGTH);
  const end = part.indexOf("\n", index - from);
  return end < 0 ? part : part.slice(0, end);
}
