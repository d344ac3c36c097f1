/** `metalbridge completion`: prints the completion script for a shell. */

import { type Command, InvalidArgumentError } from "commander";
import { SCRIPTS } from "./completion/scripts.ts";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCompletion(command: Command): void {
  command.argument("<shell>", Object.keys(SCRIPTS).join(", "), parseShell).action((script: string) => {
    writeOut(script);
  });
}

function parseShell(name: string): string {
  const script = SCRIPTS[name];
  if (script !== undefined) return script;
  throw new InvalidArgumentError(`It must be one of ${Object.keys(SCRIPTS).join(", ")}.`);
}
