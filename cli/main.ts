/** Reads the command line, loads the one verb it names, and turns the result into an exit code. */

import { Command, CommanderError } from "commander";
import { packageVersion } from "../local/package-root.ts";
import { printLine, printNote } from "./program/output.ts";
import { reportFailure } from "./program/report.ts";
import { checkHelpWords, usageErrorText } from "./program/usage-error.ts";
import { verbs } from "./verbs.ts";

/** Runs one verb. Resolves with the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  // A reader that closes the pipe, as in `metalbridge crds | head`, is not a failure of the verb.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  try {
    // The completion scripts call it. The words may contain options, which are not options of this program.
    if (args[0] === "__complete") return await printCandidates(args.slice(1));
    const program = await buildProgram(args);
    await parse(program, args);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    const { text, exitCode } = reportFailure(error);
    if (text !== "") printNote(text);
    return exitCode;
  }
}

async function printCandidates(words: readonly string[]): Promise<number> {
  const { completionsFor } = await import("./completion/candidates.ts");
  for (const word of await completionsFor(verbs, words)) printLine(word);
  return 0;
}

async function parse(program: Command, args: readonly string[]): Promise<void> {
  try {
    checkHelpWords(program, args);
    await program.parseAsync([...args], { from: "user" });
  } catch (error) {
    const text = error instanceof CommanderError ? usageErrorText(program, args, error) : "";
    if (text !== "") printNote(text);
    throw error;
  }
}

async function buildProgram(args: readonly string[]): Promise<Command> {
  const program = new Command("metalbridge")
    .description("Kubernetes inference on Macs: native engines behind ordinary cluster Services.")
    .version(packageVersion(), "-V, --version")
    // A wrong command line is explained where it is caught.
    .configureOutput({ outputError: () => {} })
    .exitOverride();
  program.addHelpText(
    "after",
    "\nTo try Metalbridge on this machine, run npm start (in a clone) or metalbridge demo. Run metalbridge VERB --help for the options of a verb.",
  );
  for (const verb of verbs) {
    const command = program.command(verb.name).description(verb.summary).helpGroup(verb.heading);
    command.copyInheritedSettings(program);
    if (args.includes(verb.name)) (await verb.load())(command);
  }
  return program;
}
