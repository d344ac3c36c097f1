/** The files for many Macs: what the playbook runs exists, and what the profile sets is valid. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { parse as parsePlist } from "plist";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { runProgram } from "../cli/program.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { root } from "./pages.ts";

const folder = path.join(root, "examples", "mac-fleet");
const read = (name: string) => readFileSync(path.join(folder, name), "utf8");

interface Task {
  readonly name: string;
  readonly "ansible.builtin.command"?: { readonly argv: readonly string[] };
  readonly "ansible.builtin.copy"?: { readonly content?: string; readonly dest: string };
  readonly "ansible.builtin.file"?: { readonly mode?: string; readonly owner?: string };
  readonly no_log?: boolean;
}

const [play] = parse(read("playbook.yaml")) as readonly {
  readonly hosts: string;
  readonly vars: Readonly<Record<string, string>>;
  readonly tasks: readonly Task[];
}[];
const commands = (play?.tasks ?? []).flatMap((task) => {
  const argv = task["ansible.builtin.command"]?.argv ?? [];
  return argv[0]?.endsWith("metalbridge") === true ? [{ task, argv }] : [];
});

test("the playbook runs install, host add, join and doctor, for hosts of the inventory", () => {
  expect(commands.map(({ argv }) => argv[1])).toEqual(["install", "host", "join", "doctor"]);
  const inventory = parse(read("inventory.yaml"));
  expect(Object.keys(inventory)).toEqual([play?.hosts]);
});

/** With the playbook's variables filled in; `folder` in place of its own. */
function filled(text: string, folder = play?.vars.folder ?? ""): string {
  const vars: Readonly<Record<string, string>> = { ...play?.vars, folder };
  const once = text.replaceAll(/\{\{ (\w+) \}\}/g, (all, name: string) => vars[name] ?? all);
  return once === text ? text : filled(once, folder);
}

test("root runs nothing from a folder that others may write", () => {
  const tasks = play?.tasks ?? [];
  expect(JSON.stringify(tasks)).not.toMatch(/unarchive|creates|\/tmp/);
  const dests = tasks.flatMap((task) => task["ansible.builtin.copy"]?.dest ?? []);
  const programs = commands.map(({ argv }) => argv[0] ?? "").filter((program) => program !== "metalbridge");
  for (const at of [...dests, ...programs])
    expect(filled(at)).toMatch(/^(\/var\/root\/metalbridge\/|\/usr\/local\/bin\/metalbridge$)/);
  const made = tasks.flatMap((task) => task["ansible.builtin.file"] ?? []).filter(({ mode }) => mode);
  expect(made).toMatchObject([{ owner: "root", mode: "0700" }]);
});

test("what an interrupted run has unpacked is unpacked again", async () => {
  await using scratch = await temporaryFolder();
  const at = (...names: string[]) => path.join(scratch.path, ...names);
  for (const name of ["metalbridge/bin", "release/bin"]) mkdirSync(at(name), { recursive: true });
  writeFileSync(at("metalbridge/bin/metalbridge"), "whole");
  writeFileSync(at("release/bin/metalbridge"), "wh");
  execFileSync("tar", ["-czf", at("release.tar.gz"), "-C", scratch.path, "metalbridge"]);
  const argv = play?.tasks.map((task) => task["ansible.builtin.command"]?.argv ?? []) ?? [];
  const [program = "", ...args] = argv.find(([name]) => name === "tar") ?? [];
  execFileSync(
    program,
    args.map((text) => filled(text, scratch.path)),
  );
  expect(readFileSync(at("release/bin/metalbridge"), "utf8")).toBe("whole");
});

test.for(commands)("the playbook's task $task.name has only flags that exist", async ({ task, argv }) => {
  const verb = argv.slice(1, argv[1] === "host" ? 3 : 2);
  const { stdout } = await runProgram([...verb, "--help"]);
  for (const flag of argv.filter((word) => word.startsWith("--"))) expect(stdout).toContain(`${flag} `);
  if (argv.includes("--token") || argv.includes("add")) expect(task.no_log).toBe(true);
  // Never in the list of processes.
  if (argv.includes("--token")) expect(argv[argv.indexOf("--token") + 1]).toBe("-");
});

test("the playbook's configuration and the profile's settings are an agent's", async () => {
  await using scratch = await temporaryFolder();
  const load = async (settings: object) => {
    const file = path.join(scratch.path, "agent.yaml");
    await writeFile(file, JSON.stringify(settings));
    return loadAgentConfig({ file, flags: { stateDir: scratch.path }, env: { PATH: "/usr/bin" } });
  };
  const content = play?.tasks.flatMap((task) => task["ansible.builtin.copy"]?.content ?? [])[0] ?? "";
  const settingsOfHost = content
    .replace("{{ inventory_hostname }}", "mac-01")
    .replace("{{ ansible_host }}", "192.168.1.21");
  expect(await load(parse(settingsOfHost))).toMatchObject({
    hostName: "mac-01",
    addresses: ["192.168.1.21"],
  });

  const profile = parsePlist(read("metalbridge.mobileconfig")) as unknown as {
    readonly PayloadContent: readonly Readonly<Record<string, unknown>>[];
  };
  const [settings, privacy] = profile.PayloadContent;
  expect(privacy?.PayloadType).toBe("com.apple.TCC.configuration-profile-policy");
  expect(settings?.PayloadType).toBe("dev.metalbridge");
  const own = Object.entries(settings ?? {}).filter(([key]) => !key.startsWith("Payload"));
  expect(await load(Object.fromEntries(own))).toMatchObject({
    llamaServer: ["/usr/local/lib/llama.cpp/llama-server"],
    reportInstalled: false,
  });
});
