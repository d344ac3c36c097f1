/** What is wrong with a command line, in one sentence, with the word that was probably meant. Pure. */
import type { Command, CommanderError } from "commander";

/** Throws a CommanderError if help is requested for a verb that does not exist: commander shows the help of the program. */
export function checkHelpWords(program: Command, args: readonly string[]): void {
  const asksForHelp = args.some((word) => word === "help" || word === "--help" || word === "-h");
  const { command, rest } = commandOf(program, args);
  const [word] = rest;
  if (!asksForHelp || word === undefined || word.startsWith("-") || command.commands.length === 0) return;
  const names = command.commands.map((one) => one.name());
  command.error(`error: unknown command '${word}'${meant(word, names)}`, {
    code: "commander.unknownCommand",
  });
}

/** Empty if commander has already printed what was requested. */
export function usageErrorText(program: Command, args: readonly string[], error: CommanderError): string {
  if (error.exitCode === 0 || error.code === "commander.help") return "";
  const { command } = commandOf(program, args);
  return `${sentence(command, error)}\n(run ${pathOf(command)} --help for usage)`;
}

/** The text of commander 14, of which its error has no parts. */
const INVALID =
  /^error: (?:option '(?<option>.*?)' argument|command-argument value) '(?<value>.*?)' is invalid(?: for argument '(?<name>.*?)')?\. (?<why>.*)$/s;

function sentence(command: Command, error: CommanderError): string {
  if (error.code === "commander.excessArguments") return excessArgument(command);
  const { option, name, value = "", why } = INVALID.exec(error.message)?.groups ?? {};
  if (why === undefined) return error.message;
  const choices =
    option === undefined
      ? command.registeredArguments.find((one) => one.name() === name)?.argChoices
      : command.options.find(({ flags }) => flags === option)?.argChoices;
  return `error: '${value}' is not valid for ${option ?? `<${name}>`}. ${why}${meant(value, choices ?? [])}`;
}

function excessArgument(command: Command): string {
  const { args, registeredArguments } = command;
  const extra = args[registeredArguments.length] ?? "";
  const names = registeredArguments.map((one) => `<${one.name()}>`).join(" ");
  const takes = names === "" ? "no argument" : `only ${names}`;
  const isByHost = command.options.some(({ long, required }) => long === "--host" && required);
  const hint = isByHost ? `\n(Did you mean --host ${extra}?)` : "";
  return `error: unexpected argument '${extra}': ${pathOf(command)} takes ${takes}${hint}`;
}

/** The verb, or the verb below it, that the words name, and the words after it. */
function commandOf(program: Command, args: readonly string[]) {
  let command = program;
  let rest = args;
  for (const word of args) {
    const next = command.commands.find((one) => one.name() === word);
    if (next === undefined && word !== "help") break;
    command = next ?? command;
    rest = rest.slice(1);
  }
  return { command, rest };
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** Edits after which a word is another word, and not a mistyped one. */
const MAX_EDITS = 2;

function meant(word: string, candidates: readonly string[]): string {
  const near = candidates
    .map((candidate) => ({
      candidate,
      edits: candidate.startsWith(word) ? 1 : editsBetween(word, candidate),
    }))
    .filter(({ candidate, edits }) => edits <= MAX_EDITS && edits < candidate.length - 1)
    .sort((one, other) => one.edits - other.edits);
  return near[0] === undefined ? "" : `\n(Did you mean ${near[0].candidate}?)`;
}

/** Levenshtein distance. */
function editsBetween(from: string, to: string): number {
  let before = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (const [row, letter] of [...from].entries()) {
    const next = [row + 1];
    for (let at = 1; at <= to.length; at += 1) {
      const replaced = (before[at - 1] ?? 0) + (letter === to[at - 1] ? 0 : 1);
      next.push(Math.min(replaced, (before[at] ?? 0) + 1, (next[at - 1] ?? 0) + 1));
    }
    before = next;
  }
  return before[to.length] ?? 0;
}
