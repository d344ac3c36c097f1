import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import type { ErrorCode } from "../../../src/api/errors.ts";
import { LLAMACPP_ROWS } from "../../../src/engines/llamacpp/settings.ts";
import { makeFolder, processPorts, runFolder } from "../../../src/supervise/fixtures/run.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { listenOn, prepareTiny, program, template } from "../../../test/fixtures/started-llama-server.ts";
import { writeTinyGguf, writeTinyLora, writeTinyProjector } from "../../../test/fixtures/tiny-gguf.ts";
import type { EngineLaunch } from "../driver/engine.ts";

/** A PNG of one pixel. */
const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/** Starts what was prepared, and waits until it is healthy. */
async function started(tiny: Awaited<ReturnType<typeof prepareTiny>>) {
  const { driver, dir, prepared, target } = tiny;
  const command = { ...prepared, record: {} };
  const process = await createSupervisor(processPorts()).start(dir, command, () => {});
  await vi.waitFor(
    async () => {
      if (process.state().at === "gone") throw new Error(await process.logTail(2000));
      expect(await driver.probeHealth(target)).toBe("healthy");
      expect(process.state().at).toBe("running");
    },
    { timeout: 60_000, interval: 50 },
  );
  const ask = async (path: string, body?: object): Promise<Record<string, unknown>> => {
    const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
    return (await fetch(`http://127.0.0.1:${target.port}${path}`, init)).json() as never;
  };
  return { ...tiny, process, ask };
}

const SAMPLES: readonly (readonly [string, Partial<EngineSettings>])[] = [
  [
    "context and slots",
    { contextSize: 1024, parallelSlots: 4, kvUnified: true, batchSize: 256, uBatchSize: 128 },
  ],
  ["cache types", { cacheTypeK: "q8_0", cacheTypeV: "q4_0", flashAttention: true, noKvOffload: true }],
  [
    "no flash attention",
    {
      flashAttention: false,
      cacheTypeCustomK: "bf16",
      cacheTypeCustomV: "bf16",
      promptCacheMiB: 0,
      gpuLayers: 0,
    },
  ],
  ["a stretched context", { ropeScaling: { type: "yarn", factor: "4.0", originalContext: 256 } }],
  ["thinking", { reasoningBudget: 0, reasoningBudgetMessage: "enough", jinja: true }],
  ["no templates", { jinja: false, extraArgs: ["--chat-template", "chatml"] }],
  ["experts", { moeCPUOffload: true, moeCPULayers: 1 }],
  [
    "overrides",
    { metadataOverrides: ["a.b=bool:false", "c.d=int:1"], tensorOverrides: ["ffn_up=CPU", "ffn_down=CPU"] },
  ],
  ["limited thinking", { reasoningBudget: 16 }],
  ["guesses from the text", { speculativeDecoding: { type: "ngram-simple" } }],
  ["short guesses from the text", { speculativeDecoding: { type: "ngram-simple", nDraftMax: 8 } }],
  ["guesses by a map", { speculativeDecoding: { type: "ngram-map-k", nDraftMax: 8 } }],
  ["guesses by a map with values", { speculativeDecoding: { type: "ngram-map-k4v", nDraftMax: 8 } }],
  ["guesses by a hash", { speculativeDecoding: { type: "ngram-mod", nDraftMax: 8 } }],
  ["guesses from a cache", { speculativeDecoding: { type: "ngram-cache" } }],
  ["pooling by the first token", { mode: "embedding", pooling: "cls" }],
  ["pooling by the last token", { mode: "embedding", pooling: "last" }],
  ["a draft model", { speculativeDecoding: { type: "draft", nDraftMax: 4, pMin: 0.5 } }],
];

/** Settings whose effect tests of their own below show, and the one that every start here has. */
const SHOWN_ELSEWHERE = ["chatTemplate", "slotSaveRestore", "noWarmup"];

it("every setting has a sample", () => {
  const sampled = SAMPLES.flatMap(([, engine]) => Object.keys(engine));
  const fields = LLAMACPP_ROWS.map(([field]) => field);
  expect(fields.filter((field) => ![...sampled, ...SHOWN_ELSEWHERE].includes(field))).toEqual([]);
});

describe.skipIf(program === undefined)("a real llama-server", () => {
  it.each(SAMPLES)("takes every typed setting: %s", async (_name, engine) => {
    await using folder = runFolder();
    const draftPath = join(folder.root, "draft.gguf");
    await writeTinyGguf(draftPath, { seed: 2, layers: 1 });
    const isDraft = engine.speculativeDecoding?.type === "draft";
    const shape = { embeddingSize: 64, heads: 2, kvHeads: 2 };
    const tiny = await started(await prepareTiny(folder, engine, shape, isDraft ? { draftPath } : {}));
    expect(await tiny.driver.probeRequest(tiny.target)).toBe("ok");
  });

  it("a real llama-server loads LoRA adapters, each at its scale", async () => {
    await using folder = runFolder();
    const loraPaths = ["a.gguf", "b.gguf"].map((name) => join(folder.root, name));
    for (const path of loraPaths) await writeTinyLora(path);
    const { model } = template();
    const loraAdapters = [
      { model, scale: 1 },
      { model, scale: 0.5 },
    ];
    const launch = { loraPaths, template: { ...template(), loraAdapters } };
    const { ask } = await started(await prepareTiny(folder, {}, {}, launch));
    expect(await ask("/lora-adapters")).toMatchObject([
      { path: loraPaths[0], scale: 1 },
      { path: loraPaths[1], scale: 0.5 },
    ]);
  });

  it("a real llama-server formats chats with the service's template", async () => {
    await using folder = runFolder();
    const chatTemplate = "{% for message in messages %}[{{ message.content }}]{% endfor %}";
    const { ask } = await started(await prepareTiny(folder, { chatTemplate }));
    const messages = [{ role: "user", content: "hello" }];
    expect(await ask("/apply-template", { messages })).toEqual({ prompt: "[hello]" });
  });

  it("a real llama-server saves a slot in its replica's folder, and restores it after a restart", async () => {
    await using folder = runFolder();
    const prepared = await prepareTiny(folder, { slotSaveRestore: true });
    const first = await started(prepared);
    await first.ask("/completion", { prompt: "The river", n_predict: 4, id_slot: 0 });
    const saved = await first.ask("/slots/0?action=save", { filename: "chat.bin" });
    expect(existsSync(join(prepared.dir, "slots", "chat.bin"))).toBe(true);
    await first.process.signal("KILL");
    await vi.waitFor(() => expect(first.process.state().at).toBe("gone"), { timeout: 60_000 });
    const { ask } = await started({ ...prepared, dir: makeFolder(folder.dir("again")) });
    const restored = await ask("/slots/0?action=restore", { filename: "chat.bin" });
    expect(restored.n_restored).toBe(saved.n_saved);
  });

  it("a real llama-server accepts images with a projector", async () => {
    await using folder = runFolder();
    const mmprojPath = join(folder.root, "mmproj.gguf");
    await writeTinyProjector(mmprojPath);
    const { ask } = await started(await prepareTiny(folder, {}, {}, { mmprojPath }));
    expect(await ask("/props")).toMatchObject({ modalities: { vision: true } });
    const content = [
      { type: "text", text: "What is this?" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PIXEL}` } },
    ];
    const answer = await ask("/v1/chat/completions", {
      messages: [{ role: "user", content }],
      max_tokens: 2,
    });
    expect(answer).toMatchObject({ usage: { completion_tokens: 2 } });
  });

  it.each<[string, ErrorCode, RegExp, (other: string) => Partial<EngineLaunch>]>([
    [
      "an adapter of another model",
      "EngineBadModel",
      /^the engine could not load a LoRA adapter: .*shape/,
      (other) => ({ loraPaths: [other] }),
    ],
    [
      "a projector that is none",
      "EngineBadModel",
      /^the engine could not load the projector: .*CLIP/,
      (other) => ({ mmprojPath: other }),
    ],
    [
      "a template with a mistake",
      "EngineSettingsRefused",
      // On a busy machine the engine exits before it has written the line with the token.
      /^the engine refused the chat template: .*(token|not supported)/,
      () => ({ template: template({ chatTemplate: "{% for x in %}" }) }),
    ],
  ])("that ends because of %s says so", async (_name, code, message, launch) => {
    await using folder = runFolder();
    const other = join(folder.root, "other.gguf");
    await writeTinyLora(other);
    const wider = { embeddingSize: 128 };
    const { driver, dir, prepared } = await prepareTiny(folder, {}, wider, launch(other));
    const command = { ...prepared, record: {} };
    const engine = await createSupervisor(processPorts()).start(dir, command, () => {});
    await vi.waitFor(() => expect(engine.state().at).toBe("gone"), { timeout: 60_000 });
    const reason = driver.classifyExit({ code: 1 }, await engine.logTail(8192));
    expect(reason).toEqual({ code, message: expect.stringMatching(message) });
  });

  it("a real llama-server without memory for its context reports a known reason", async () => {
    await using folder = runFolder();
    const { driver, dir, prepared } = await prepareTiny(folder, { contextSize: 4_000_000 });
    const argv = ["/bin/sh", "-c", 'ulimit -v 400000; exec "$0" "$@"', ...prepared.argv];
    const command = { argv, env: prepared.env, record: {} };
    const engine = await createSupervisor(processPorts()).start(dir, command, () => {});
    await vi.waitFor(() => expect(engine.state()).toMatchObject({ at: "gone", exit: { code: 1 } }), {
      timeout: 60_000,
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
    const prepared = await driver.prepare({ ...launch, modelPath: join(folder.root, file) }, dir);
    const more = code === "EngineFlagRefused" ? ["--mlock"] : [];
    await using stranger = await listenOn(code === "EnginePortTaken" ? launch.port : 0);
    const engine = await createSupervisor(processPorts()).start(
      dir,
      { argv: [...prepared.argv, ...more], env: prepared.env, record: {} },
      () => {},
    );
    await vi.waitFor(() => expect(engine.state().at).toBe("gone"), { timeout: 60_000 });
    const state = engine.state();
    expect(stranger.port).toBeGreaterThan(0);
    expect(state).toMatchObject({ exit: { code: 1 } });
    expect(driver.classifyExit({ code: 1 }, await engine.logTail(8192)).code).toBe(code);
  });
});
