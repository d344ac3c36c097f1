import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { runFolder } from "../../../src/supervise/fixtures/run.ts";
import { processes, program, template } from "../../../test/fixtures/started-llama-server.ts";
import { createLlamaServerDriver } from "./driver.ts";

describe("a host where llama-server", () => {
  const make = (folder: ReturnType<typeof runFolder>, script: string, mode = 0o755) => {
    const path = join(folder.root, "llama-server");
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, mode);
    const env = { PATH: "/usr/bin:/bin" };
    return createLlamaServerDriver({ paths: [path], env, processes, firstAnswerTimeoutsMs: [300, 10_000] });
  };
  const older = fileURLToPath(
    new URL("../../../src/engines/llamacpp/fixtures/help-b5000-style.txt", import.meta.url),
  );

  it("a host without llama-server detects no runtime and prepares no engine", async () => {
    await using folder = runFolder();
    const driver = createLlamaServerDriver({ paths: ["/nowhere"], env: { PATH: folder.root }, processes });
    expect(await driver.detect()).toBeUndefined();
    const place = { address: "127.0.0.1", port: 1, record: {} };
    const launch = { ...place, template: template(), modelPath: "/m", files: [] };
    await expect(driver.prepare(launch, folder.root)).rejects.toMatchObject({ code: "RuntimeNotInstalled" });
  });

  it.each([
    ["is not executable", "true", 0o644, "RuntimeNotExecutable"],
    ["crashes at once", "kill -SEGV $$", 0o755, "RuntimeBroken"],
    ["prints nothing", "true", 0o755, "RuntimeBroken"],
    ["never answers after its version", '[ "$1" = --version ] || exec sleep 60', 0o755, "RuntimeBroken"],
    ["is too old", `cat '${older}'`, 0o755, "RuntimeTooOld"],
  ] as const)("a llama-server that %s is reported as such", async (_name, script, mode, code) => {
    await using folder = runFolder();
    await expect(make(folder, script, mode).detect()).rejects.toMatchObject({ code });
  });

  it("a llama-server whose first run is slow, because the system checks the file, is run again with more time", async () => {
    await using folder = runFolder();
    const ran = join(folder.root, "ran");
    const driver = make(folder, `[ -e '${ran}' ] || { touch '${ran}'; exec sleep 60; }; cat '${older}'`);
    await expect(driver.detect()).rejects.toMatchObject({ code: "RuntimeTooOld" });
  });

  it("a llama-server that was replaced is inspected again", async () => {
    if (program === undefined) return;
    await using folder = runFolder();
    const driver = make(folder, "kill -SEGV $$");
    await expect(driver.detect()).rejects.toMatchObject({ code: "RuntimeBroken" });
    writeFileSync(join(folder.root, "llama-server"), `#!/bin/sh\nexec '${program}' "$@"\n`);
    expect(await driver.detect()).toMatchObject({ name: "llama-server" });
  });
});
