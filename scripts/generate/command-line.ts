/** Part of docs/cli.md: every verb with its options, as the program itself knows them. */
import { Command, type Option } from "commander";
import { verbs } from "../../cli/verbs.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

/** The table of verbs, then one section for each. */
export async function commandLineLines(): Promise<string[]> {
  const sections = await Promise.all(verbs.map(async ({ name, load }) => sectionOf(name, await load())));
  return [
    ...verbs.flatMap(({ name, summary, heading }, index) => {
      const row = `| [\`${name}\`](#metalbridge-${name}) | ${cell(summary)} |`;
      const isFirst = verbs[index - 1]?.heading !== heading;
      return isFirst ? ["", heading, "", "| verb | description |", "|---|---|", row] : [row];
    }),
    "",
    ...sections.flat(),
  ];
}

function sectionOf(name: string, configure: (command: Command) => void): string[] {
  const command = new Command(name);
  configure(command);
  const usages = command.commands.length === 0 ? usageOf(command, name) : subcommandsOf(command, name);
  return [`### metalbridge ${name}`, "", ...usages];
}

function subcommandsOf(command: Command, name: string): string[] {
  return command.commands.flatMap((sub) => {
    const inner = `${name} ${sub.name()}`;
    const about = `${sub.description().replace(/^./, (letter) => letter.toUpperCase())}:`;
    return sub.commands.length > 0 ? subcommandsOf(sub, inner) : [about, "", ...usageOf(sub, inner)];
  });
}

function usageOf(command: Command, name: string): string[] {
  const words = command.registeredArguments.map((argument) =>
    argument.required ? `<${argument.name()}>` : `[${argument.name()}]`,
  );
  const options = command.options.filter(({ hidden }) => !hidden);
  const usage = ["metalbridge", name, ...words, ...(options.length === 0 ? [] : ["[options]"])].join(" ");
  const table = ["", ...markdownTable(["option", "meaning"], options.map(optionRow))];
  return [`\`${usage}\``, ...(options.length === 0 ? [] : table), ""];
}

function optionRow(option: Option): string[] {
  const choices = option.argChoices === undefined ? "" : `: ${option.argChoices.join(", ")}`;
  const given: unknown = option.defaultValueDescription ?? option.defaultValue;
  const standard = given === undefined || given === false ? "" : ` (default: ${String(given)})`;
  const meaning = cell(`${option.description}${choices}${standard}`);
  return [`\`${option.flags.replaceAll("|", "\\|")}\``, meaning];
}

function cell(text: string): string {
  return escapeCell(text).replaceAll("<", "&lt;");
}
