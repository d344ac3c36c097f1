import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { makeRunFolder, removeRunFolder } from "./leftovers.mjs";

/** A program in a session of its own, as engines are, that mentions the folder. */
async function startIn(folder: string) {
  const child = spawn("/bin/sh", ["-c", "echo up; read forever", "sh", path.join(folder, "engine.json")], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
  });
  await once(child.stdout, "data");
  return { child, ended: once(child, "exit") };
}

test("what mentions the folder of a run ends with it, and nothing else does", async () => {
  await using parent = await temporaryFolder();
  const folder = makeRunFolder(parent.path);
  expect(path.basename(folder)).toBe(`mbtest-${process.pid}`);
  const inside = await startIn(folder);
  const beside = await startIn(`${folder}9`);
  const killed = removeRunFolder(folder);
  expect(killed).toEqual([expect.stringContaining(`${folder}/engine.json`)]);
  expect((await inside.ended)[1]).toBe("SIGKILL");
  expect(existsSync(folder)).toBe(false);
  expect(beside.child.exitCode).toBe(null);
  beside.child.stdin.end();
  await beside.ended;
});

test("a run removes what a dead run has left, and not what a living one has", async () => {
  await using parent = await temporaryFolder();
  const gone = spawn("true", { stdio: "ignore" });
  await once(gone, "exit");
  const [dead, alive, other] = [`mbtest-${gone.pid}`, `mbtest-${process.ppid}`, "mbtest-notes"].map((name) =>
    path.join(parent.path, name),
  );
  for (const folder of [dead, alive, other]) {
    mkdirSync(folder ?? "");
    writeFileSync(path.join(folder ?? "", "file"), "");
  }
  const left = await startIn(dead ?? "");
  makeRunFolder(parent.path);
  expect((await left.ended)[1]).toBe("SIGKILL");
  expect([dead, alive, other].map((folder) => existsSync(folder ?? ""))).toEqual([false, true, true]);
});
