/** The Agent Skill says what is true: front matter, routes with their parameters, tools, its SkillPack. Commands are held by the other tests of pages. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { decideExecRequest, READING_COMMANDS } from "../../cli/skill-sidecar/request.ts";
import { llmfitTools } from "../../server/mcp/llmfit-tools.ts";
import { ownTools } from "../../server/mcp/tools.ts";
import { commandsByName, commandsOf, problemOf } from "./commands.ts";
import { allPages, root } from "./pages.ts";

const pages = allPages();
const skills = pages.filter(({ path: file }) => file.startsWith("skills/") && file !== "skills/README.md");
const { paths } = JSON.parse(
  readFileSync(path.join(root, "docs/reference/density-openapi.json"), "utf8"),
) as {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly parameters: readonly { readonly name: string }[] }>>>
  >;
};

test("the front matter is as the format wants it", () => {
  const entries = skills.filter(({ path: file }) => file.endsWith("/SKILL.md"));
  expect(entries).toHaveLength(1);
  for (const { path: file, text } of entries) {
    const [, front = ""] = /^---\n([\s\S]*?)\n---\n/.exec(text) ?? [];
    const { name, description, ...rest } = parse(front);
    expect(`skills/${name}/SKILL.md`).toBe(file);
    expect(name).toMatch(/^[a-z0-9]+(-[a-z0-9]+)*$/);
    expect(description.length).toBeGreaterThan(50);
    expect(description.length).toBeLessThanOrEqual(1024);
    expect(rest).toEqual({});
    // The body is loaded as a whole when the skill is used.
    expect(text.split("\n").length).toBeLessThan(500);
  }
});

test("every route exists, with the parameters that are named", () => {
  const asked = skills.flatMap(({ text }) => [
    ...text.matchAll(/(GET|POST) (\/api\/v1\/[^\s`?]+)(?:\?([^\s`]*))?/g),
  ]);
  expect(asked.length).toBeGreaterThan(7);
  for (const [all, method = "", route = "", query = ""] of asked) {
    const operation = paths[route]?.[method.toLowerCase()];
    expect(operation, all).toBeDefined();
    const known = operation?.parameters.map(({ name }) => name);
    expect(known, all).toEqual(expect.arrayContaining([...new URLSearchParams(query).keys()]));
  }
  const named = new Set(asked.map(([, , route]) => route));
  expect(Object.keys(paths).filter((route) => !named.has(route))).toEqual([]);
});

test("the tools are those that the server has", () => {
  const never = () => Promise.reject(new Error("nothing is called"));
  const context = {
    now: () => ({ wallMs: 0, monotonicMs: 0 }),
    density: never,
    cluster: never,
    deploy: never,
    llmfit: () => ({ status: 404, body: "" }),
  };
  const tools = [...ownTools(context), ...llmfitTools(context)];
  const names = tools.map(({ name }) => name).sort();
  for (const file of ["docs/mcp.md", "skills/metalbridge/references/mcp-tools.md"]) {
    const page = pages.find((one) => one.path === file);
    const listed = [...(page?.text ?? "").matchAll(/^\| `([a-z_]+)` \|/gm)].map(([, name = ""]) => name);
    expect(listed.sort(), file).toEqual(names);
  }
});

test("the SkillPack has every page of the skill, and its sidecar runs what SKILL.md says to run", () => {
  const manifest = parse(readFileSync(path.join(root, "skills/metalbridge/skillpack.yaml"), "utf8"));
  const { skills: packed, sidecar } = manifest.spec as {
    readonly skills: readonly { readonly name: string; readonly content: string }[];
    readonly sidecar: { readonly hostAccess?: object; readonly clusterRBAC: readonly { verbs: string[] }[] };
  };
  expect(packed).toHaveLength(skills.length);
  const names = packed.map(({ name }) => `${name}.md`);
  for (const { content } of packed)
    for (const [, target = ""] of content.matchAll(/\]\(([^)#]+)/g)) expect(names).toContain(target);
  expect(sidecar.hostAccess).toBeUndefined();
  for (const { verbs } of sidecar.clusterRBAC) expect(["get", "list"]).toEqual(expect.arrayContaining(verbs));
  const [main] = packed;
  const commands = (main?.content ?? "").split("\n").filter((line) => line.startsWith("metalbridge "));
  expect(commands.length).toBeGreaterThan(7);
  for (const command of commands) {
    expect(problemOf(command), command).toBeUndefined();
    expect(decideExecRequest(JSON.stringify({ command }), "metalbridge").at, command).toBe("run");
  }
});

const decide = (command: string) => decideExecRequest(JSON.stringify({ command }), "metalbridge");

test("the sidecar takes every command of every page, apart from those that change something or run on", () => {
  const commands = skills.flatMap(commandsOf).filter((line) => / /.test(line.trim()));
  expect(commands.length).toBeGreaterThan(20);
  const refused = commands.flatMap((command) => {
    const decision = decide(command);
    if (decision.at === "run") return [];
    expect(decision, command).toMatchObject({ why: expect.stringContaining("only reads") });
    return [
      command
        .split(" ")
        .slice(1, command.startsWith("metalbridge models") ? 3 : 2)
        .join(" "),
    ];
  });
  const changing = ["cordon", "deploy", "drain", "mcp", "models pin", "models pull", "models rm"];
  expect([...new Set(refused)].sort()).toEqual([...changing, "models verify", "uncordon"]);
});

/** Options of reading commands; each was left out on purpose. */
const LEFT_OUT = [
  ...["--kubeconfig", "--kube-context", "--context", "--config", "--root", "--state-dir"],
  ...["--dry-run", "--timeout", "--wait", "--watch", "-w", "--yes"],
];

test("each option of a reading command is allowed or left out on purpose", () => {
  for (const [one, allowed] of Object.entries(READING_COMMANDS)) {
    const command = commandsByName.get(one.replace(/ --.*$/, ""));
    const flags = command?.options.flatMap(({ long, short }) => [long, short]) ?? [];
    expect(flags, one).toEqual(expect.arrayContaining(allowed.match(/\S+/g) ?? []));
    const refused = flags.filter((flag) => decide(`metalbridge ${one} ${flag ?? ""}`).at !== "run");
    expect(LEFT_OUT, one).toEqual(expect.arrayContaining(refused));
  }
});
