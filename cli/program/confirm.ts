/** Asks the user before something is changed. */
import { createInterface } from "node:readline/promises";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { terminalText } from "../../src/util/terminal-text.ts";

/** Asks on standard error, so that standard output stays for results. Throws NotConfirmed. */
export async function confirm(question: string): Promise<void> {
  if (process.stdin.isTTY !== true)
    throw new MetalbridgeError("NotConfirmed", "there is no terminal to ask at; nothing was changed");
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await Promise.race([
      terminal.question(terminalText(`${question} [y/N] `)),
      whenClosed(terminal),
    ]);
    if (!/^y(es)?$/i.test(answer.trim())) throw new MetalbridgeError("NotConfirmed", "nothing was changed");
  } finally {
    terminal.close();
  }
}

/** Ctrl-C and Ctrl-D are a no. */
function whenClosed(terminal: ReturnType<typeof createInterface>): Promise<string> {
  return new Promise((resolve) => {
    terminal.once("close", () => resolve(""));
    terminal.once("SIGINT", () => resolve(""));
  });
}
