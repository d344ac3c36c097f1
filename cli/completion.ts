/** `metalbridge completion`: prints the completion script for a shell. */

import { Argument, type Command, InvalidArgumentError } from "commander";
import { SCRIPTS } from "./completion/scripts.ts";
import { writeOut } from "./program/output.ts";

/** Options and action of the verb. */
export function configureCompletion(command: Command): void {
  const shells = Object.keys(SCRIPTS);
  command
    .addArgument(
      new Argument("<shell>", "shell that the script is for").choices(shells).argParser(parseShell),
    )
    .action((script: string) => {
      writeOut(script);
    });
}

function parseShell(name: string): string {
  const script = SCRIPTS[name];
  if (script !== undefined) return script;
  throw new InvalidArgumentError(`It must be one of ${Object.keys(SCRIPTS).join(", ")}.`);
}
