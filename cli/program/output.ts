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
