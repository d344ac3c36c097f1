/** What verbs print: every line leaves the process here, so that no text from a cluster, an engine or a model reaches the terminal raw. */
import { terminalText } from "../../src/util/terminal-text.ts";

/** Results, on standard output. */
export function writeOut(text: string): void {
  process.stdout.write(terminalText(text));
}

/** Notes and questions, on standard error. */
export function writeErr(text: string): void {
  process.stderr.write(terminalText(text));
}

/** One line of a result, on standard output. */
export function printLine(line: string): void {
  writeOut(`${line}\n`);
}

/** One line for the user, on standard error: standard output holds results only. */
export function printNote(line: string): void {
  writeErr(`${line}\n`);
}

/** A value as indented JSON, on standard output. */
export function printJson(value: unknown): void {
  printLine(JSON.stringify(value, undefined, 2));
}

/** A value in the format that `--output` names. */
export function printResult<T>(output: string | undefined, value: T, render: (value: T) => string): void {
  if (output === "json") printJson(value);
  else printLine(render(value));
}
