import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, test } from "vitest";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { countEngines } from "./engine-count.ts";

const processes: ChildProcess[] = [];
afterEach(() => {
  for (const child of processes.splice(0)) child.kill("SIGKILL");
});

/** A line as the shim writes it. */
function startedMark(): string {
  const child = spawn("sleep", ["600"], { stdio: "ignore" });
  processes.push(child);
  return `${child.pid} ${createIdentityReader(process.platform).startTimeNow(child.pid ?? 0)}\n`;
}

const gone = "4194000 boot:1\n";

test.each([
  ["an engine with a process", { "engines/a/pid": "alive" }, 1],
  ["an engine whose shim alone lives", { "engines/a/session": "alive", "engines/a/pid": "gone" }, 1],
  ["an engine that exited", { "engines/a/pid": "gone", "engines/a/engine.json": "{}" }, 0],
  [
    "a replica in a daemon of others, behind a gate",
    { "engines/a/engine.json": "{}", "gate/1/pid": "alive" },
    1,
  ],
  [
    "two of them beside an engine",
    {
      "engines/a/engine.json": "{}",
      "engines/b/engine.json": "{}",
      "engines/c/pid": "alive",
      "gate/1/pid": "alive",
    },
    3,
  ],
  ["a gate alone", { "gate/2/session": "alive", "gate/routes.json": "[]" }, 1],
  ["a gate that exited", { "gate/2/pid": "gone", "engines/a/engine.json": "{}" }, 0],
  ["a shared daemon", { "daemons/ollama/pid": "alive" }, 1],
  ["nothing", {}, 0],
])("countEngines counts %s", async (_, files, count) => {
  await using folder = await temporaryFolder();
  for (const [name, text] of Object.entries(files)) {
    const file = path.join(folder.path, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text === "alive" ? startedMark() : text === "gone" ? gone : text);
  }
  expect(countEngines(folder.path)).toBe(count);
});

test.each(["engines", "daemons", "gate"])(
  "countEngines returns undefined if the folder %s cannot be read",
  async (kind) => {
    await using folder = await temporaryFolder();
    symlinkSync(kind, path.join(folder.path, kind));
    expect(countEngines(folder.path)).toBeUndefined();
  },
);
