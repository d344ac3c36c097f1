/** Finds the commands in a page and says what is wrong with them. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { Command } from "commander";
import { z } from "zod";
import { verbs } from "../../cli/verbs.ts";
import { inlineCode, type Page, root } from "./pages.ts";

/** Which files a script's options are read in. */
const SCRIPT_SOURCES: Readonly<Record<string, string>> = {
  interop: "test/interop/main.ts",
  simulate: "scripts/simulate.ts",
  claims: "scripts/claims.ts",
  build: "scripts/build.ts",
  release: "scripts/release.ts",
  image: "scripts/image.ts",
  setup: "scripts/setup.mjs",
  bench: "scripts/bench/main.ts",
  torture: "test/torture/main.ts",
  generate: "scripts/generate.ts",
};

const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")));

/** By verb, and by verb and subcommand. */
export const commandsByName: ReadonlyMap<string, Command> = new Map(
  (
    await Promise.all(
      verbs.map(async ({ name, load }) => {
        const command = new Command(name);
        (await load())(command);
        return entriesOf(name, command);
      }),
    )
  ).flat(),
);

const optionsByVerb = new Map([...commandsByName].map(([name, command]) => [name, flagsOf(command)]));

/** Every command line of a page that is one of ours: `metalbridge …`, `npm …`. */
export function commandsOf(page: Page): readonly string[] {
  return commandLinesOf(page).filter((line) => /^(metalbridge|npm) /.test(line));
}

/** Commands without placeholders that read from a cluster. */
export function readOnlyCommandsOf(page: Page): readonly string[] {
  return commandLinesOf(page).filter(isReadOnly);
}

/** Custom metrics are another program's API, which no cluster of tests has. */
function isReadOnly(line: string): boolean {
  if (line.includes("/apis/custom.metrics.k8s.io/")) return false;
  return /^kubectl (get|explain|api-resources) /.test(line) && !/ -w\b|…|<|\b[A-Z]{2,}\b/.test(line);
}

/** The same of the error catalog. */
export function readOnlyCommandsIn(command: string): readonly string[] {
  return [command].filter(isReadOnly);
}

function commandLinesOf(page: Page): readonly string[] {
  const shell = page.blocks.filter(({ language }) => ["", "sh", "bash", "console"].includes(language));
  const lines = [...shell.flatMap(({ text }) => text.split("\n")), ...inlineCode(page)];
  return lines
    .map((line) => line.replace(/(^|\s)#.*$/, ""))
    .flatMap((line) => line.split(/\||&&|;|\$\(/))
    .map((line) => line.trim().replace(/^(sudo|npx|\$) +/, ""));
}

/** What does not exist in the command; undefined when all of it does. */
export function problemOf(command: string): string | undefined {
  const words = command.split(/\s+/);
  return words[0] === "npm" ? problemOfNpm(words.slice(1)) : problemOfVerb(words.slice(1));
}

function problemOfVerb([verb = "", ...rest]: readonly string[]): string | undefined {
  if (verb.startsWith("-") || /^(VERB|…)$/.test(verb)) return undefined;
  if (!optionsByVerb.has(verb)) return `there is no verb ${verb}`;
  const [next] = rest;
  if (next !== undefined && optionsByVerb.has(`${verb} ${next}`))
    return problemOfVerb([`${verb} ${next}`, ...rest.slice(1)]);
  const hasSubcommands = [...optionsByVerb.keys()].some((known) => known.startsWith(`${verb} `));
  if (hasSubcommands && next !== undefined) return `metalbridge ${verb} has no subcommand ${next}`;
  const options = optionsByVerb.get(verb);
  const unknown = flagsIn(rest).find((flag) => options?.has(flag) !== true);
  return unknown === undefined ? undefined : `metalbridge ${verb} has no option ${unknown}`;
}

function entriesOf(name: string, command: Command): (readonly [string, Command])[] {
  const inner = command.commands.flatMap((sub) => entriesOf(`${name} ${sub.name()}`, sub));
  return [[name, command], ...inner];
}

function flagsOf({ options }: Command): ReadonlySet<string | undefined> {
  return new Set([...options.flatMap(({ long, short }) => [long, short]), "--help", "-h"]);
}

function problemOfNpm([first = "", ...rest]: readonly string[]): string | undefined {
  if (["install", "ci", "install-scripts"].includes(first)) return undefined;
  const [script = "", ...args] =
    first === "run" ? rest.filter((word) => word !== "--silent") : [first, ...rest];
  if (script === "…") return undefined;
  if (scripts[script] === undefined) return `package.json has no script ${script}`;
  const flags = flagsIn(args.slice(args.indexOf("--") + 1));
  if (script === "test") return undefined; // vitest's own
  if (script === "start") return problemOfVerb(["demo", ...flags]);
  const source = SCRIPT_SOURCES[script];
  const text = source === undefined ? "" : readFileSync(path.join(root, source), "utf8");
  const unknown = flags.find((flag) => !new RegExp(`["'\\s]?${flag.replace(/^--/, "")}["':\\s]`).test(text));
  return unknown === undefined ? undefined : `npm run ${script} has no option ${unknown}`;
}

function flagsIn(words: readonly string[]): readonly string[] {
  return words
    .filter((word) => /^--?[a-z]/.test(word))
    .map((word) => word.replace(/=.*$/, ""))
    .filter((word) => word !== "--");
}

/** Pages whose commands a reader is expected to type. */
export function isForReaders({ path: file }: Page): boolean {
  return file !== "CHANGELOG.md" && !file.startsWith("docs/decisions/");
}

/** The same check for the commands of the error catalog. */
export function commandsIn(text: string): readonly string[] {
  return text
    .split(/\||&&/)
    .map((part) => part.trim())
    .filter((part) => /^metalbridge /.test(part));
}
