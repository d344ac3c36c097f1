/** Why Ollama exited, and what it means when it refuses a model or a pull: read from its own words. Pure. */
import type { ErrorCode } from "../../api/errors.ts";
import { truncate } from "../../util/text.ts";
import { lastRun, type RunAtEnd } from "../contract/last-run.ts";

interface Cause {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
}

const LONGEST = 300;

/** First match wins. */
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

/** A message does not repeat what a registry answered. */
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
    // It removes what is wrong and says that it must be downloaded again.
    pattern: /digest mismatch/i,
    code: "SourceTruncated",
    says: "a file did not match its checksum, and Ollama removed it",
  },
];

/** For an answer to a load or a create; `undefined`: nothing that speaks against the model. */
export function ollamaLoadFailure(words: string): { readonly code: ErrorCode; readonly message: string } {
  return { code: codeOf(words, LOAD_CAUSES) ?? "EngineCrashed", message: `Ollama: ${short(words)}` };
}

export function ollamaPullFailure(words: string): { readonly code: ErrorCode; readonly message: string } {
  const cause = PULL_CAUSES.find(({ pattern }) => pattern.test(words));
  return {
    code: cause?.code ?? "SourceUnavailable",
    message: cause?.says ?? "the registry gave another answer than a model; the log of Ollama has it",
  };
}

/** `isAppRunning`: Ollama's desktop app runs on this machine. */
export function classifyExit(
  exit: { readonly code?: number; readonly signal?: string } | "unknown",
  logTail: string,
  { memory }: RunAtEnd = { wasReady: false },
  isAppRunning = false,
): { readonly code: ErrorCode; readonly message: string } {
  if (exit === "unknown") return { code: "EngineEndUnknown", message: "Ollama exited; exit status unknown" };
  const { code, signal } = exit;
  if (code === 126 || code === 127) {
    const reason: ErrorCode = code === 126 ? "RuntimeNotExecutable" : "RuntimeNotInstalled";
    return { code: reason, message: `Ollama cannot be executed: ${lastLine(logTail)}` };
  }
  // It answers TERM and INT with exit code 0.
  if (code === 0 || signal === "SIGTERM" || signal === "SIGINT" || signal === "SIGHUP") {
    const app = isAppRunning
      ? "; Ollama.app is running, and stops every other Ollama server when its own cannot start: quit it, and remove it from the login items"
      : "";
    return { code: "EngineKilled", message: `Ollama was asked to stop by another process${app}` };
  }
  if (signal === "SIGKILL") {
    if (memory === undefined)
      return {
        code: "EngineKilled",
        message: "killed (SIGKILL) by a user, or by the OS under memory pressure",
      };
    return { code: "EngineOutOfMemory", message: `killed (SIGKILL) while the host's memory was ${memory}` };
  }
  const log = lastRun(logTail);
  if (/bind: address already in use/.test(log))
    return { code: "EnginePortTaken", message: "Ollama's port is taken by another process" };
  // Its log is that of all its models: what it says of one of them is no reason to give up the others.
  const isMemory = codeOf(log, LOAD_CAUSES.slice(0, 1)) !== undefined;
  const message = `Ollama exited with ${signal ?? `exit code ${code}`}: ${lastLine(log)}`;
  return { code: isMemory ? "EngineOutOfMemory" : "EngineCrashed", message };
}

/** Lines of its own logger and of its runners; its access log repeats what clients ask for. */
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

function lastLine(log: string): string {
  return short(ownLines(log).trimEnd().split("\n").at(-1) ?? "") || "its log is empty";
}

function short(words: string): string {
  return truncate(words.replace(/[\s\p{Cc}]+/gu, " ").trim(), LONGEST);
}
