/** What the pages tell readers to type exists: verbs, scripts, options, exit codes. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { exitCodes } from "../../cli/program/exit-codes.ts";
import { verbs } from "../../cli/verbs.ts";
import type { ErrorEntry } from "../../src/api/errors/entry.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { commandsByName, commandsIn, commandsOf, isForReaders, problemOf } from "./commands.ts";
import { allPages, repositoryFiles, root } from "./pages.ts";

const pages = allPages();
const cliPage = pages.find(({ path }) => path === "docs/cli.md");

test("wrong commands are noticed", () => {
  expect(problemOf("metalbridge fly")).toBe("there is no verb fly");
  expect(problemOf("metalbridge up --wings")).toBe("metalbridge up has no option --wings");
  expect(problemOf("metalbridge rollout fly")).toBe("metalbridge rollout has no subcommand fly");
  expect(problemOf("metalbridge rollout undo chat --wings")).toBe(
    "metalbridge rollout undo has no option --wings",
  );
  expect(problemOf("metalbridge rollout undo chat --to-revision 2")).toBeUndefined();
  expect(problemOf("npm run fly")).toBe("package.json has no script fly");
  expect(problemOf("npm start -- --wings")).toBe("metalbridge demo has no option --wings");
  expect(problemOf("npm run bench -- --wings 2")).toBe("npm run bench has no option --wings");
  expect(problemOf("npm run bench -- --engines 2")).toBeUndefined();
});

test.for(pages.filter(isForReaders))("$path: every command exists", (page) => {
  const problems = commandsOf(page).flatMap((command) => {
    const problem = problemOf(command);
    return problem === undefined ? [] : [`${command}: ${problem}`];
  });
  expect(problems).toEqual([]);
});

test("issue forms have unique fields with labels, and ask for commands that exist", () => {
  const forms = repositoryFiles(".github/ISSUE_TEMPLATE/*.yml").filter(
    (file) => !file.endsWith("config.yml"),
  );
  expect(forms).not.toEqual([]);
  for (const file of forms) {
    const { name, description, body } = parse(readFileSync(path.join(root, file), "utf8"));
    expect([name, description], file).not.toContain(undefined);
    const fields = body.filter(({ type }: { type: string }) => type !== "markdown");
    const ids = fields.map(({ id }: { id: string }) => id);
    expect(new Set(ids).size, file).toBe(ids.length);
    for (const { attributes } of fields) {
      expect(attributes.label, file).toMatch(/\S/);
      for (const [command] of (attributes.description ?? "").matchAll(/metalbridge [a-z-][^,.]*/g))
        expect(problemOf(command), command).toBeUndefined();
    }
  }
});

test("the README's commands are seen", () => {
  const readme = pages.find(({ path }) => path === "README.md");
  expect(readme === undefined ? [] : commandsOf(readme)).toEqual(
    expect.arrayContaining(["npm start", "npm test"]),
  );
});

test("remedies of the error catalog name commands that exist", () => {
  const entries: readonly [string, ErrorEntry][] = Object.entries(errorCatalog);
  const problems = entries.flatMap(([code, entry]) => {
    const quoted = [...entry.do.matchAll(/`([^`]+)`/g)].map(([, command]) => command ?? "");
    const commands = [entry.command ?? "", ...quoted].flatMap(commandsIn);
    return commands.flatMap((command) => {
      const problem = problemOf(command);
      return problem === undefined ? [] : [`${code}: ${problem}`];
    });
  });
  expect(problems).toEqual([]);
});

test("docs/cli.md lists the verbs", () => {
  const listed = [...(cliPage?.text ?? "").matchAll(/^\| \[`([a-z-]+)`\]/gm)].map(([, verb]) => verb);
  expect(listed).toEqual(verbs.map(({ name }) => name));
});

test("docs/cli.md names every option of a verb in the section of the verb", () => {
  const sections = new Map(
    (cliPage?.text ?? "").split(/^#{3,4} metalbridge /m).map((text) => [text.split("\n")[0], text]),
  );
  const missing = [...commandsByName].flatMap(([name, { options, commands }]) =>
    (commands.length > 0 ? [] : options)
      .filter(
        ({ hidden, long }) => !hidden && !new RegExp(`${long}(?![a-z-])`).test(sections.get(name) ?? ""),
      )
      .map(({ long }) => `${name} ${long}`),
  );
  expect(missing).toEqual([]);
});

test("docs/cli.md lists the exit codes", () => {
  const listed = [...(cliPage?.text ?? "").matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  expect(listed).toEqual(Object.values(exitCodes));
});
