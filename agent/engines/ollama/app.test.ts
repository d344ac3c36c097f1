/** The exit of a server that the desktop app of Ollama stopped. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runFolder } from "../../../src/supervise/fixtures/run.ts";
import { ollamaAgent } from "../../../test/fixtures/ollama.ts";
import { ollamaEngine } from "./driver.ts";

test("the exit reason names the desktop app that ended a server, on a Mac where the app runs", async () => {
  await using folder = runFolder();
  const bin = join(folder.root, "bin");
  mkdirSync(bin);
  writeFileSync(join(bin, "pgrep"), '#!/bin/sh\n[ "$*" = "-x Ollama" ] && echo 4711\n', { mode: 0o755 });
  const { instances } = ollamaAgent(folder);
  const driverOn = (path: string) =>
    ollamaEngine.driver(
      { programs: [] },
      { env: { PATH: path }, machine: { platform: "darwin" }, instances, memoryBudget: () => undefined },
    );
  const exit = await driverOn(`${bin}:/usr/bin:/bin`).classifyExit({ code: 0 }, "");
  expect(exit).toMatchObject({
    code: "EngineKilled",
    message: expect.stringContaining("Ollama.app is running"),
  });
  const elsewhere = await driverOn("/nowhere").classifyExit({ code: 0 }, "");
  expect(elsewhere.message).not.toContain("Ollama.app");
});
