/** The files for many hosts: what the role runs exists, what the profiles set is known, and the script for the firewall works. */
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
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
const role = path.join(folder, "roles", "metalbridge_host");
const read = (...names: string[]) => readFileSync(path.join(folder, ...names), "utf8");
const yamlIn = (name: string) => parse(readFileSync(path.join(role, name), "utf8"));

interface Task {
  readonly name: string;
  readonly "ansible.builtin.command"?: { readonly argv: string | readonly string[] };
  readonly "ansible.builtin.copy"?: { readonly content?: string; readonly dest: string };
  readonly "ansible.builtin.file"?: { readonly mode?: string; readonly owner?: string };
  readonly "ansible.builtin.shell"?: string;
  readonly no_log?: boolean;
}

const tasks: readonly Task[] = readdirSync(path.join(role, "tasks")).flatMap((name) =>
  yamlIn(`tasks/${name}`),
);

/** Words of a command, also of those that an expression puts together. */
function wordsOf(task: Task): readonly string[] {
  const argv = task["ansible.builtin.command"]?.argv ?? [];
  return typeof argv === "string"
    ? [...argv.matchAll(/metalbridge_command|'([^']+)'/g)].map(([all, word]) => word ?? all)
    : argv;
}
const isOurs = (word = "") => /metalbridge_(command|program|release_folder)\b/.test(word);
const commands = tasks.flatMap((task) => {
  const words = wordsOf(task);
  return isOurs(words[0])
    ? [{ task, words: words.slice(1).filter((word) => /^-?[-a-z0-9]+$/.test(word)) }]
    : [];
});

test("the playbook runs the role for the hosts of the inventory, one at a time by default", () => {
  const [play] = parse(read("playbook.yaml"));
  expect(play).toMatchObject({ become: true, roles: ["metalbridge_host"] });
  expect(Object.keys(parse(read("inventory.yaml")))).toEqual([play.hosts]);
  expect(play.serial).toContain("default(1)");
});

test("the role runs drain, install, engine install, host add, join, uncordon and doctor", () => {
  const verbs = commands.map(({ words }) => words.filter((word) => !word.startsWith("-"))[0]);
  expect(verbs.sort()).toEqual(["doctor", "drain", "engine", "host", "install", "join", "uncordon"]);
});

test.for(commands)("the role's task $task.name has only flags that exist", async ({ task, words }) => {
  const depth = ["host", "engine"].includes(words[0] ?? "") ? 2 : 1;
  const { stdout } = await runProgram([...words.slice(0, depth), "--help"]);
  for (const flag of words.filter((word) => word.startsWith("--"))) expect(stdout).toContain(`${flag} `);
  if (words.includes("--token") || words.includes("add")) expect(task.no_log).toBe(true);
  // Never in the list of processes.
  if (words.includes("--token")) expect(wordsOf(task)[wordsOf(task).indexOf("--token") + 1]).toBe("-");
});

test.each(["Darwin", "Linux"])("root runs nothing from a folder that others may write: %s", (system) => {
  const vars = { ...yamlIn(`vars/${system}.yaml`), ...yamlIn("vars/main.yaml") } as Record<string, string>;
  const filled = (text: string): string => {
    const once = text.replaceAll(/\{\{ (\w+) \}\}/g, (all, name: string) => vars[name] ?? all);
    return once === text ? text : filled(once);
  };
  const closed = system === "Darwin" ? /^\/var\/root\/metalbridge(\/|$)/ : /^\/root\/metalbridge(\/|$)/;
  expect(JSON.stringify(tasks)).not.toMatch(/unarchive"|\/tmp/);
  for (const { dest = "" } of tasks.flatMap((task) => task["ansible.builtin.copy"] ?? []))
    expect(filled(dest)).toMatch(closed);
  expect(filled(vars.metalbridge_release_folder ?? "")).toMatch(closed);
  const made = tasks.flatMap((task) => task["ansible.builtin.file"] ?? []).filter(({ mode }) => mode);
  expect(made).toMatchObject([{ owner: "root", mode: "0700" }]);
});

test("every variable of the role is in its README and has a default, or is required", () => {
  const readme = readFileSync(path.join(role, "README.md"), "utf8");
  const defaults = Object.keys(yamlIn("defaults/main.yaml"));
  const listed = [...readme.matchAll(/`(metalbridge_[a-z0-9_]+)`/g)].map(([, name]) => name ?? "");
  const required = ["metalbridge_version", "metalbridge_release_sha256"];
  for (const name of [...defaults, ...required]) expect(listed, name).toContain(name);
});

interface Payload {
  readonly [key: string]: unknown;
  readonly PayloadType: string;
}
interface Profile extends Payload {
  readonly PayloadUUID: string;
  readonly PayloadScope: string;
  readonly PayloadContent: readonly Payload[];
}
const profiles = readdirSync(path.join(folder, "profiles")).map((name) => [
  name,
  parsePlist(read("profiles", name)) as unknown as Profile,
]) as [string, Profile][];

/** Keys of Apple's device management documentation; those of our own are the agent's settings. */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  "com.apple.security.firewall": [
    "EnableFirewall",
    "BlockAllIncoming",
    "EnableStealthMode",
    "Applications",
    "AllowSigned",
    "AllowSignedApp",
  ],
  "com.apple.TCC.configuration-profile-policy": ["Services"],
};
const OF_ALL = ["PayloadType", "PayloadVersion", "PayloadIdentifier", "PayloadUUID"];
const ownKeys = (payload: Payload) => Object.keys(payload).filter((key) => !OF_ALL.includes(key));

test.each(profiles)("%s is a profile for devices with one payload of known keys", async (_, profile) => {
  expect(profile).toMatchObject({ PayloadType: "Configuration", PayloadVersion: 1, PayloadScope: "System" });
  const [payload, ...more] = profile.PayloadContent;
  if (payload === undefined) throw new Error("the profile is empty");
  expect(more).toEqual([]);
  for (const key of OF_ALL) expect(payload[key], key).toBeDefined();
  if (payload.PayloadType !== "dev.metalbridge") {
    expect(KEYS[payload.PayloadType]).toEqual(expect.arrayContaining(ownKeys(payload)));
    return;
  }
  await using scratch = await temporaryFolder();
  const settings = Object.fromEntries(ownKeys(payload).map((key) => [key, payload[key]]));
  expect(await load(scratch.path, settings)).toMatchObject({ reportInstalled: false });
});

test("no two profiles or payloads share a UUID", () => {
  const uuids = profiles.flatMap(([, profile]) =>
    [profile, ...profile.PayloadContent].map((one) => one.PayloadUUID),
  );
  expect(new Set(uuids).size).toBe(uuids.length);
  for (const uuid of uuids) expect(uuid).toMatch(/^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$/);
});

test("access to protected folders is given to the agent's program by path and code requirement", () => {
  const found = profiles.find(([name]) => name === "privacy.mobileconfig")?.[1].PayloadContent[0];
  expect(found?.Services).toEqual({
    SystemPolicyAllFiles: [
      expect.objectContaining({ IdentifierType: "path", CodeRequirement: expect.any(String), Allowed: true }),
    ],
  });
});

test("the agent accepts the role's configuration", async () => {
  await using scratch = await temporaryFolder();
  const content = tasks.flatMap((task) => task["ansible.builtin.copy"]?.content ?? [])[0] ?? "";
  expect(content).toContain("{'hostName': metalbridge_host_name, 'addresses': [metalbridge_address]}");
  const { macs } = parse(read("inventory.yaml")).metalbridge.children;
  const settings = { hostName: "mac-01", addresses: ["192.168.1.21"], ...macs.vars.metalbridge_config };
  expect(await load(scratch.path, settings)).toMatchObject({ hostName: "mac-01" });
});

test("the script for the firewall allows the engine in use, once", async () => {
  await using scratch = await temporaryFolder();
  const at = (...names: string[]) => path.join(scratch.path, ...names);
  const engines = at("engines", "llamacpp");
  mkdirSync(path.join(engines, "b1-0", "files"), { recursive: true });
  writeFileSync(path.join(engines, "b1-0", "files", "llama-server"), "");
  symlinkSync("files/llama-server", path.join(engines, "b1-0", "llama-server"));
  symlinkSync("b1-0", path.join(engines, "current"));
  // The tool's answers as recorded on a Mac.
  const listed = at("listed");
  const tool = at("socketfilterfw");
  const said = `case $1 in --getappblocked) grep -q "$2" ${listed} 2>/dev/null && echo "The application $2 is permitted" || echo "The application $2 is not part of the firewall";; --unblockapp) echo "$2" >> ${listed};; esac`;
  writeFileSync(tool, `#!/bin/sh\necho "$@" >> ${at("calls")}\n${said}\n`);
  chmodSync(tool, 0o755);
  const script = readFileSync(path.join(role, "files", "allow-engines.sh"), "utf8")
    .replace("/usr/libexec/ApplicationFirewall/socketfilterfw", tool)
    .replace("/usr/local/lib/metalbridge/engines", at("engines"));
  const allow = () => execFileSync("sh", ["-c", script], { encoding: "utf8" });
  const program = path.join(engines, "b1-0", "files", "llama-server");
  expect(allow()).toContain(`allowed ${program}`);
  expect(allow()).toBe("");
  const calls = readFileSync(at("calls"), "utf8").trim().split("\n");
  expect(calls).toEqual(
    ["--getappblocked", "--add", "--unblockapp", "--getappblocked"].map((flag) => `${flag} ${program}`),
  );
});

async function load(scratch: string, settings: object) {
  const file = path.join(scratch, "agent.yaml");
  await writeFile(file, JSON.stringify(settings));
  return loadAgentConfig({ file, flags: { stateDir: scratch }, env: { PATH: "/usr/bin" } });
}
