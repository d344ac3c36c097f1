/** Turns whatever a verb threw into the lines a person reads and the exit code a script reads. */
import { CommanderError } from "commander";
import { ZodError } from "zod";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { type ExitCode, exitCodes } from "./exit-codes.ts";

export interface FailureReport {
  /** Empty when everything has been said already. */
  readonly text: string;
  readonly exitCode: ExitCode;
}

/** Codes whose cause is what the user typed or configured. */
const USAGE_CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "BadEnvironment",
  "AgentConfigInvalid",
  "AgentConfigUnreadable",
  "ControllerConfigInvalid",
  "ServerConfigInvalid",
  "SchedulerConfigInvalid",
  "NodeConfigInvalid",
]);

/** A disk that is full or cannot be written is no bug, wherever a program meets it. */
const DISK_CODES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: "StateDiskFull",
  EDQUOT: "StateDiskFull",
  EROFS: "StateFolderUnusable",
};

/** Pure: expected failures get code, sentence and remedy; anything else is a bug and keeps its stack. */
export function reportFailure(error: unknown): FailureReport {
  if (error instanceof CommanderError) {
    return { text: "", exitCode: error.exitCode === 0 ? exitCodes.ok : exitCodes.usage };
  }
  const expected = expectedOf(error);
  if (expected !== undefined) return { text: describeExpected(expected), exitCode: exitCodeOf(expected) };
  if (error instanceof ZodError) {
    const lines = error.issues.map(
      (issue) => `${issue.path.map(String).join(".") || "options"}: ${issue.message}`,
    );
    return { text: lines.join("\n"), exitCode: exitCodes.usage };
  }
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { text: `this is a bug in metalbridge, please report it\n${stack}`, exitCode: exitCodes.bug };
}

/** The same for JSON: an expected failure has code and remedy, a bug has only what it says. */
export function failureFields(error: unknown): Readonly<Record<string, unknown>> {
  const { code, message, remedy } = expectedOf(error) ?? {};
  if (code !== undefined) return { code, message, remedy };
  return { message: errorMessage(error) };
}

function expectedOf(error: unknown): MetalbridgeError | undefined {
  if (error instanceof MetalbridgeError) return error;
  if (!(error instanceof Error)) return undefined;
  const { syscall, path }: NodeJS.ErrnoException = error;
  const code = DISK_CODES[systemCode(error) ?? ""];
  // Linux reports the limit of a user's file watches as a full disk.
  if (code === undefined || syscall === "watch") return undefined;
  const where = path === undefined || error.message.includes(path) ? "" : ` (${path})`;
  return new MetalbridgeError(code, `${error.message}${where}`, undefined, { cause: error });
}

function describeExpected(error: MetalbridgeError): string {
  const { summary, command } = error.remedy;
  const lines = [`${error.code}: ${error.message}`, `  ${summary}`];
  if (command !== undefined) lines.push(`    ${command}`);
  return lines.join("\n");
}

function exitCodeOf(error: MetalbridgeError): ExitCode {
  return USAGE_CODES.has(error.code) ? exitCodes.usage : exitCodes.failed;
}
