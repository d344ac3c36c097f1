/** Turns whatever a verb threw into the lines a person reads and the exit code a script reads. */
import { CommanderError } from "commander";
import { ZodError } from "zod";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
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
  "ExtenderConfigInvalid",
  "SchedulerConfigInvalid",
  "NodeConfigInvalid",
]);

/** Pure: expected failures get code, sentence and remedy; anything else is a bug and keeps its stack. */
export function reportFailure(error: unknown): FailureReport {
  if (error instanceof CommanderError) {
    return { text: "", exitCode: error.exitCode === 0 ? exitCodes.ok : exitCodes.usage };
  }
  if (error instanceof MetalbridgeError)
    return { text: describeExpected(error), exitCode: exitCodeOf(error) };
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
  if (error instanceof MetalbridgeError)
    return { code: error.code, message: error.message, remedy: error.remedy };
  return { message: errorMessage(error) };
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
