import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import { listenOn, prepareTiny, program } from "../../../test/fixtures/started-llama-server.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { processPorts, runFolder } from "../../instances/process/fixtures/run.ts";
import { createEngineProcesses } from "../../instances/process/processes.ts";

describe.skipIf(program === undefined)("a real llama-server", () => {
  it.each<[string, Partial<EngineSettings>]>([
    [
      "context and slots",
      { contextSize: 1024, parallelSlots: 4, kvUnified: true, batchSize: 256, uBatchSize: 128 },
    ],
    ["cache types", { cacheTypeK: "q8_0", cacheTypeV: "q4_0", flashAttention: true, noKvOffload: true }],
    [
      "no flash attention",
      { flashAttention: false, cacheTypeCustomK: "bf16", promptCacheMiB: 0, gpuLayers: 0 },
    ],
    ["a stretched context", { ropeScaling: { type: "yarn", factor: "4.0", originalContext: 256 } }],
    ["thinking", { reasoningBudget: 0, reasoningBudgetMessage: "enough", jinja: true }],
    ["no templates", { jinja: false, extraArgs: ["--chat-template", "chatml"] }],
    ["experts", { moeCPUOffload: true, moeCPULayers: 1 }],
    [
      "overrides",
      { metadataOverrides: ["a.b=bool:false", "c.d=int:1"], tensorOverrides: ["ffn_up=CPU", "ffn_down=CPU"] },
    ],
    ["guesses from the text", { speculativeDecoding: { type: "ngram-simple" } }],
    ["a draft model", { speculativeDecoding: { type: "draft", nDraftMax: 4, pMin: 0.5 } }],
  ])("takes every typed setting: %s", async (_name, engine) => {
    await using folder = runFolder();
    const draftPath = join(folder.root, "draft.gguf");
    await writeTinyGguf(draftPath, { seed: 2, layers: 1 });
    const isDraft = engine.speculativeDecoding?.type === "draft";
    const shape = { embeddingSize: 64, heads: 2, kvHeads: 2 };
    const { driver, dir, prepared, target } = await prepareTiny(
      folder,
      engine,
      shape,
      isDraft ? { draftPath } : {},
    );
    const process = await createEngineProcesses(processPorts()).startEngine(
      dir,
      { ...prepared, record: {} },
      () => {},
    );
    await vi.waitFor(
      async () => {
        if (process.state().at === "gone") throw new Error(await process.logTail(2000));
        expect(await driver.probeHealth(target)).toBe("healthy");
      },
      { timeout: 10_000, interval: 50 },
    );
    expect(await driver.probeRequest(target)).toBe("ok");
  });

  it("that finds no memory for its context says so in words that are understood", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared } = await prepareTiny(folder, { contextSize: 4_000_000 });
    const argv = ["/bin/sh", "-c", 'ulimit -v 400000; exec "$0" "$@"', ...prepared.argv];
    const command = { argv, env: prepared.env, record: {} };
    const engine = await createEngineProcesses(processPorts()).startEngine(dir, command, () => {});
    await vi.waitFor(() => expect(engine.state()).toMatchObject({ at: "gone", exit: { code: 1 } }), {
      timeout: 10_000,
    });
    expect(driver.classifyExit({ code: 1 }, await engine.logTail(4_000)).code).toBe("EngineOutOfMemory");
  });

  it.each([
    ["a missing file", "EngineModelMissing", "missing.gguf"],
    ["a file that is no model", "EngineBadModel", "garbage.gguf"],
    ["a port that is taken", "EnginePortTaken", "tiny.gguf"],
    ["an argument it does not know", "EngineFlagRefused", "tiny.gguf"],
    ["heads that a cache type does not fit", "EngineSettingsRefused", "tiny.gguf"],
  ] as const)("that ends because of %s is classified as %s", async (_name, code, file) => {
    await using folder = runFolder();
    const { driver, dir, launch } = await prepareTiny(
      folder,
      code === "EngineSettingsRefused" ? { cacheTypeK: "q8_0" } : {},
      { heads: 4 },
    );
    writeFileSync(join(folder.root, "garbage.gguf"), "<html>not found</html>".repeat(100));
    const prepared = await driver.prepare({ ...launch, modelPath: join(folder.root, file) });
    const more = code === "EngineFlagRefused" ? ["--mlock"] : [];
    await using stranger = await listenOn(code === "EnginePortTaken" ? launch.port : 0);
    const engine = await createEngineProcesses(processPorts()).startEngine(
      dir,
      { argv: [...prepared.argv, ...more], env: prepared.env, record: {} },
      () => {},
    );
    await vi.waitFor(() => expect(engine.state().at).toBe("gone"), { timeout: 10_000 });
    const state = engine.state();
    expect(stranger.port).toBeGreaterThan(0);
    expect(state).toMatchObject({ exit: { code: 1 } });
    expect(driver.classifyExit({ code: 1 }, await engine.logTail(8192)).code).toBe(code);
  });
});
