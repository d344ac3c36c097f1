/** Reads the command line, loads the one verb it names, and turns its end into an exit code. */

import { Command } from "commander";
import { packageVersion } from "../local/package-root.ts";
import { writeErr, writeOut } from "./program/output.ts";
import { reportFailure } from "./program/report.ts";
import { headingOf, verbs } from "./verbs.ts";

/** Runs one verb; resolves with the exit code, unless the verb set one itself. */
export async function main(args: readonly string[]): Promise<number> {
  // `metalbridge crds | head`, or a closed terminal: a closed reader is no failure of the verb.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  try {
    // What the scripts of `metalbridge completion` call: options among the words are no options of ours.
    if (args[0] === "__complete") return await printCandidates(args.slice(1));
    const program = await buildProgram(args);
    await program.parseAsync([...args], { from: "user" });
    return Number(process.exitCode ?? 0);
  } catch (error) {
    const { text, exitCode } = reportFailure(error);
    if (text !== "") writeErr(`${text}\n`);
    return exitCode;
  }
}

async function printCandidates(words: readonly string[]): Promise<number> {
  const { completionsFor } = await import("./completion/candidates.ts");
  for (const word of await completionsFor(verbs, words)) writeOut(`${word}\n`);
  return 0;
}

async function buildProgram(args: readonly string[]): Promise<Command> {
  const program = new Command("metalbridge")
    .description("Kubernetes inference on Macs: native engines behind ordinary cluster Services.")
    .version(packageVersion(), "-V, --version")
    .showHelpAfterError("(--help shows what can be given)")
    .exitOverride();
  program.addHelpText(
    "after",
    "\nNew here? npm start (in a clone) or metalbridge demo tries it on this machine; metalbridge VERB --help has the options.",
  );
  for (const verb of verbs) {
    const command = program.command(verb.name).description(verb.summary).helpGroup(headingOf(verb));
    command.copyInheritedSettings(program);
    if (args.includes(verb.name)) (await verb.load())(command);
  }
  return program;
}
