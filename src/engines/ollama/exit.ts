/** Determines from Ollama's messages why it exited, or why it rejected a model or a pull. Pure. */
import type { ErrorCode } from "../../api/errors.ts";
import { type Exit, type ExitReason, exitReasonOf, lastLine, shortenLogLine } from "../contract/exit.ts";
import { lastRun, type RunAtEnd } from "../contract/last-run.ts";

interface Cause {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
}

/** The first match wins. */
const LOAD_CAUSES: readonly Cause[] = [
  {
    pattern: /requires more system memory|out of memory|failed to allocate|cudaMalloc/i,
    code: "EngineOutOfMemory",
  },
  { pattern: /no space left on device|disk quota exceeded/i, code: "DiskFull" },
  { pattern: /requires a newer version of Ollama|incompatible with your version/i, code: "RuntimeTooOld" },
  { pattern: /does not support (?:generate|embed|chat|completion)/i, code: "EngineSettingsRefused" },
  {
    pattern:
      /unable to load model|failed to load model|error loading model|unknown model architecture|not in GGUF format|invalid (?:file )?magic|unsupported (?:content type|architecture|GGUF)|unexpected EOF|no (?:GGUF|valid) /i,
    code: "EngineBadModel",
  },
];

/** The messages do not repeat the response of the registry. */
const PULL_CAUSES: readonly (Cause & { readonly says: string })[] = [
  {
    pattern: /file does not exist|not found|404/i,
    code: "SourceNotFound",
    says: "the registry has no such model or tag",
  },
  {
    pattern: /requires a newer version of Ollama/i,
    code: "RuntimeTooOld",
    says: "it needs a newer version of Ollama",
  },
  { pattern: /unauthorized|401/i, code: "SourceUnauthorized", says: "the registry asks for credentials" },
  { pattern: /forbidden|403|denied/i, code: "SourceForbidden", says: "the registry refuses access" },
  {
    pattern: /no space left on device|disk quota exceeded/i,
    code: "DiskFull",
    says: "no space left on the disk",
  },
  {
    pattern: /connection refused|no such host|network is unreachable|i\/o timeout|tls:|x509:/i,
    code: "SourceUnreachable",
    says: "the registry cannot be reached",
  },
  {
    // Ollama removes the file and reports that it must be downloaded again.
    pattern: /digest mismatch/i,
    code: "SourceTruncated",
    says: "a file did not match its checksum, and Ollama removed it",
  },
];

/** The reason in the response to a load or a create. */
export function ollamaLoadFailure(words: string): ExitReason {
  return { code: codeOf(words, LOAD_CAUSES) ?? "EngineCrashed", message: `Ollama: ${shortenLogLine(words)}` };
}

export function ollamaPullFailure(words: string): ExitReason {
  const cause = PULL_CAUSES.find(({ pattern }) => pattern.test(words));
  return {
    code: cause?.code ?? "SourceUnavailable",
    message: cause?.says ?? "the response of the registry is not a model; the log of Ollama has it",
  };
}

/** `isAppRunning`: Ollama's desktop app runs on this machine. */
export function classifyExit(
  exit: Exit,
  logTail: string,
  run: RunAtEnd = { wasReady: false },
  isAppRunning = false,
): ExitReason {
  const { code, signal = "" } = exit === "unknown" ? {} : exit;
  // Ollama exits with code 0 after TERM and INT.
  if (code === 0 || ["SIGTERM", "SIGINT", "SIGHUP"].includes(signal)) {
    const app = isAppRunning
      ? "; Ollama.app is running, and stops every other Ollama server when its own cannot start: quit it, and remove it from the login items"
      : "";
    return { code: "EngineKilled", message: `Ollama was asked to stop by another process${app}` };
  }
  const log = lastRun(logTail);
  const ownLog = ownLines(log);
  return exitReasonOf(exit, run, {
    known: () => {
      if (exit === "unknown") return undefined;
      if (/bind: address already in use/.test(log))
        return { code: "EnginePortTaken", message: "Ollama's port is taken by another process" };
      // The log contains messages about all models, so a problem of one model is no reason to give up the others.
      if (codeOf(log, LOAD_CAUSES.slice(0, 1)) === undefined) return undefined;
      const status = signal || `exit code ${code ?? "unknown"}`;
      return {
        code: "EngineOutOfMemory",
        message: `Ollama ran out of memory (${status}): ${lastLine(ownLog)}`,
      };
    },
    lastLine: () => lastLine(ownLog),
  });
}

/** Lines of Ollama's logger and of its runners, without the access log, which repeats text of clients. */
export function ownLines(log: string): string {
  const own = /^\0*(?:time=\S+ level=\w+ source=|(?:ggml|llama|gguf|clip|load|print)_|--- metalbridge)/;
  return log
    .split("\n")
    .filter((line) => own.test(line))
    .join("\n");
}

function codeOf(words: string, causes: readonly Cause[]): ErrorCode | undefined {
  return causes.find(({ pattern }) => pattern.test(words))?.code;
}
