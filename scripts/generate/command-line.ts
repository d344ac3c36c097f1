/** Parts of docs/cli.md: the verbs, the options that many of them share, and every verb with its own options. */
import { type Argument, Command, type Option } from "commander";
import { catalogOption } from "../../cli/catalog/read.ts";
import { addClusterFlags, addDaemonFlags, addNamespacedFlags, outputFlag } from "../../cli/cluster/flags.ts";
import { addInstallScopeFlags } from "../../cli/install/context.ts";
import { addLocalFlags } from "../../cli/logs/locate.ts";
import { verbs } from "../../cli/verbs.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

/** One option or argument: its name in lists of options, and its cells in a table. */
interface Row {
  readonly name: string;
  readonly cells: readonly [string, string];
}

/** A verb shares a group if it has all rows of the group. */
interface SharedOptions {
  readonly anchor: string;
  readonly rows: readonly Row[];
}

interface Section extends SharedOptions {
  readonly title: string;
  readonly about: string;
}

/** Options of a verb that at least this many of its subcommands have are listed once, with the verb. */
const MIN_SUBCOMMANDS = 3;

const clusterRows = optionRows(addClusterFlags(new Command()));

const sharedSections: readonly Section[] = [
  section("Cluster connection", "The same cluster and user as with kubectl.", clusterRows),
  section(
    "Namespace",
    "Verbs on services, models and replicas.",
    without(optionRows(addNamespacedFlags(new Command())), clusterRows),
  ),
  section(
    "Output format",
    "Verbs with other formats list them in their own table.",
    optionRows(new Command().addOption(outputFlag())),
  ),
  section(
    "Catalog files",
    "Verbs that read the catalog of models.",
    optionRows(new Command().addOption(catalogOption())),
  ),
  section(
    "Agent on this machine",
    "Verbs that read the files of the agent on this machine.",
    optionRows(addLocalFlags(new Command())),
  ),
  section(
    "Installation scope",
    "Verbs on the agent that is installed on this machine.",
    optionRows(addInstallScopeFlags(new Command())),
  ),
  section(
    "Programs in the cluster",
    "Programs that run until they are stopped, usually in a pod.",
    optionRows(addDaemonFlags(new Command())),
  ),
];

export async function commandLineParts(): Promise<Record<string, readonly string[]>> {
  const commands = await Promise.all(
    verbs.map(async ({ name, summary, load }) => {
      const command = new Command(name).description(summary);
      (await load())(command);
      return command;
    }),
  );
  return {
    verbs: [...verbLines(), ""],
    "shared options": [...sharedSections.flatMap(sharedLines), ""],
    "options of verbs": [...commands.flatMap((command) => commandLines(command, command.name(), 3, [])), ""],
  };
}

function verbLines(): string[] {
  return verbs.flatMap(({ name, summary, heading }, index) => {
    const row = `| [\`${name}\`](${anchorOf(`metalbridge ${name}`)}) | ${cell(summary)} |`;
    const isFirst = verbs[index - 1]?.heading !== heading;
    return isFirst
      ? ["", `### ${heading.replace(":", "")}`, "", "| verb | description |", "|---|---|", row]
      : [row];
  });
}

function sharedLines({ title, about, rows }: Section): string[] {
  return ["", `### ${title}`, "", about, "", ...table(rows)];
}

/** `inherited` are the options that are listed with the verb of a subcommand. */
function commandLines(
  command: Command,
  name: string,
  level: number,
  inherited: readonly SharedOptions[],
): string[] {
  const about = command.description().replace(/^./, (letter) => letter.toUpperCase());
  const title = `metalbridge ${name}`;
  const head = ["", `${"#".repeat(level)} ${title}`, "", `${cell(about)}.`, ""];
  if (command.commands.length === 0) return [...head, ...usageLines(command, name, inherited)];

  const subcommands = leavesOf(command);
  const links = subcommands.map(({ path }) => `[\`${path}\`](${anchorOf(`${title} ${path}`)})`);
  const common = commonRows(subcommands.map(({ command: sub }) => optionRows(sub)));
  const groups = common.map((row) => ({ anchor: anchorOf(title), rows: [row] }));
  return [
    ...head,
    `Subcommands: ${links.join(", ")}.`,
    ...(common.length === 0 ? [] : ["", "Options of several subcommands:", "", ...table(common)]),
    ...subcommands.flatMap(({ command: sub, path }) =>
      commandLines(sub, `${name} ${path}`, level + 1, groups),
    ),
  ];
}

/** The subcommands that run something, with the words that select them. */
function leavesOf(command: Command): { readonly command: Command; readonly path: string }[] {
  return command.commands.flatMap((sub) =>
    sub.commands.length === 0
      ? [{ command: sub, path: sub.name() }]
      : leavesOf(sub).map((leaf) => ({ ...leaf, path: `${sub.name()} ${leaf.path}` })),
  );
}

function commonRows(subcommands: readonly (readonly Row[])[]): Row[] {
  const own = subcommands.map((rows) => sharedSections.filter(isSharedBy(rows)).reduce(withoutGroup, rows));
  const counted = Object.values(Object.groupBy(own.flat(), keyOf));
  return counted.flatMap((same = []) => (same.length < MIN_SUBCOMMANDS ? [] : same.slice(0, 1)));
}

function usageLines(command: Command, name: string, inherited: readonly SharedOptions[]): string[] {
  const options = optionRows(command);
  const words = command.registeredArguments.map(wordOf);
  const usage = ["metalbridge", name, ...words, ...(options.length === 0 ? [] : ["[options]"])].join(" ");
  const groups = [...sharedSections, ...inherited].filter(isSharedBy(options));
  const args = argumentRows(command);
  const own = [...args, ...groups.reduce(withoutGroup, options)];
  const links = groups.map(({ anchor, rows }) => {
    const names = rows.map((row) => `\`${row.name}\``);
    return `[${names.join(", ")}](${anchor})`;
  });
  return [
    `\`${usage}\``,
    ...(own.length === 0 ? [] : ["", ...table(own, args.length === 0 ? "option" : "argument or option")]),
    ...(links.length === 0 ? [] : ["", `Shared options: ${links.join("; ")}`]),
  ];
}

function section(title: string, about: string, rows: readonly Row[]): Section {
  return { title, about, anchor: anchorOf(title), rows };
}

function anchorOf(title: string): string {
  return `#${title.toLowerCase().replaceAll(" ", "-")}`;
}

function isSharedBy(rows: readonly Row[]): (group: SharedOptions) => boolean {
  return (group) => without(group.rows, rows).length === 0;
}

function withoutGroup(rows: readonly Row[], group: SharedOptions): readonly Row[] {
  return without(rows, group.rows);
}

function without(rows: readonly Row[], others: readonly Row[]): readonly Row[] {
  const keys = new Set(others.map(keyOf));
  return rows.filter((row) => !keys.has(keyOf(row)));
}

function keyOf({ cells }: Row): string {
  return cells.join(" | ");
}

function table(rows: readonly Row[], header = "option"): string[] {
  return markdownTable(
    [header, "meaning"],
    rows.map(({ cells }) => cells),
  );
}

function optionRows(command: Command): Row[] {
  return command.options.filter(({ hidden }) => !hidden).map(optionRow);
}

function optionRow(option: Option): Row {
  return rowOf(option.flags.replace(/ [<[].*/, ""), option.flags.replaceAll("|", "\\|"), option);
}

/** Arguments whose meaning the usage line does not show, which it does for the name of an object such as `<service>`. */
function argumentRows({ registeredArguments }: Command): Row[] {
  return registeredArguments
    .filter(({ description }) => !/^(name of the \w+)?$/.test(description))
    .map((argument) => rowOf(argument.name(), wordOf(argument), argument));
}

function wordOf(argument: Argument): string {
  const word = `${argument.name()}${argument.variadic ? "..." : ""}`;
  return argument.required ? `<${word}>` : `[${word}]`;
}

function rowOf(name: string, label: string, value: Option | Argument): Row {
  const choices = value.argChoices === undefined ? "" : `: ${value.argChoices.join(", ")}`;
  const given: unknown = value.defaultValueDescription ?? value.defaultValue;
  const standard = given === undefined || given === false ? "" : ` (default: ${String(given)})`;
  return { name, cells: [`\`${label}\``, cell(`${value.description}${choices}${standard}`)] };
}

function cell(text: string): string {
  return escapeCell(text).replaceAll("<", "&lt;");
}
