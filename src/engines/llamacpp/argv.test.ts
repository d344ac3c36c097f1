import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { EngineSettings } from "../../api/engine-settings.ts";
import { buildArgv } from "./argv.ts";
import type { LlamaServerInput } from "./argv-input.ts";
import { parseCapabilities } from "./capabilities.ts";
import { PINNED as current } from "./pinned.ts";

const read = (name: string) => readFileSync(new URL(`./fixtures/${name}.txt`, import.meta.url), "utf8");
const older = parseCapabilities(read("help-b5000-style"), "version: 5000 (ed7adbfef)\nbuilt with cc");

function build(
  settings: Partial<EngineSettings>,
  changes: Partial<LlamaServerInput> = {},
  capabilities = current,
) {
  const input = { modelPath: "/m.gguf", hosts: ["127.0.0.1"], port: 21000, aliases: ["chat"], ...changes };
  return buildArgv({ ...input, settings: { mode: "chat", ...settings } }, capabilities);
}

/** One line per flag, as the golden texts below have it. */
function text(
  settings: Partial<EngineSettings>,
  changes: Partial<LlamaServerInput> = {},
  capabilities = current,
): string {
  const { argv, problems } = build(settings, changes, capabilities);
  const lines = argv.join(" ").split(/ (?=-{1,2}[a-z])/);
  return [...lines, ...problems.map(({ field, why, code }) => `! ${code} ${field}: ${why}`)].join("\n");
}

describe("the command line", () => {
  it("of a chat service without settings is explicit about all that the claim counts", () => {
    expect(text({})).toBe(
      `--model /m.gguf
--host 127.0.0.1
--port 21000
--alias chat
--metrics
--no-ui
--offline
--ctx-size 4096
--parallel 1
--no-kv-unified
--fit off
--cache-ram 1024
--flash-attn auto
--n-gpu-layers all
--cors-origins localhost`,
    );
  });

  it("of a service with every setting", () => {
    const settings: EngineSettings = {
      mode: "chat",
      contextSize: 8192,
      parallelSlots: 4,
      kvUnified: true,
      ropeScaling: { type: "yarn", factor: "4.0", originalContext: 32768 },
      flashAttention: true,
      jinja: true,
      cacheTypeK: "q8_0",
      cacheTypeCustomV: "bf16",
      batchSize: 1024,
      uBatchSize: 256,
      promptCacheMiB: 0,
      gpuLayers: 0,
      moeCPUOffload: true,
      moeCPULayers: 3,
      noKvOffload: true,
      noWarmup: true,
      reasoningBudget: 0,
      reasoningBudgetMessage: "enough",
      metadataOverrides: ["a=bool:false", "b=int:1"],
      tensorOverrides: ["exps=CPU", "ffn=CPU"],
      speculativeDecoding: { type: "draft", nDraftMax: 5, pMin: 0.5 },
      extraArgs: ["--temp", "0", "--no_context_shift", "-v"],
    };
    const changes = {
      mmprojPath: "/p.gguf",
      draftPath: "/d.gguf",
      loraAdapters: [
        { path: "/a.gguf", scale: 1 },
        { path: "/b.gguf", scale: 0.5 },
      ],
      chatTemplatePath: "/t.jinja",
      slotSavePath: "/slots",
      hosts: ["127.0.0.1", "10.0.0.5"],
      apiKeyFile: "/k",
      gguf: { keyLength: 128, valueLength: 128 },
    };
    expect(text(settings, changes)).toMatchInlineSnapshot(`
      "--model /m.gguf
      --mmproj /p.gguf
      --host 127.0.0.1,10.0.0.5
      --port 21000
      --alias chat
      --metrics
      --no-ui
      --offline
      --slot-save-path /slots
      --api-key-file /k
      --ctx-size 8192
      --parallel 4
      --kv-unified
      --fit off
      --cache-ram 0
      --rope-scaling yarn
      --rope-scale 4.0
      --yarn-orig-ctx 32768
      --cache-type-k q8_0
      --cache-type-v bf16
      --flash-attn on
      --n-gpu-layers 0
      --override-tensor exps=CPU,ffn=CPU
      --override-kv a=bool:false,b=int:1
      --batch-size 1024
      --ubatch-size 256
      --cpu-moe
      --n-cpu-moe 3
      --no-kv-offload
      --no-warmup
      --jinja
      --chat-template-file /t.jinja
      --reasoning-budget 0
      --reasoning-budget-message enough
      --lora-scaled /a.gguf:1,/b.gguf:0.5
      --spec-type draft-simple
      --spec-draft-model /d.gguf
      --spec-draft-ngl 999
      --spec-draft-n-max 5
      --spec-draft-p-min 0.5
      --cors-origins localhost
      --temp 0
      --no-context-shift
      -v"
    `);
  });

  it("of an embedding and a rerank service has all flags of the mode and no prompt cache", () => {
    expect(text({ mode: "embedding", promptCacheMiB: 512 })).toMatch(
      /--cache-ram 0\n(.*\n)*--embedding\n--cors.*$/,
    );
    expect(text({ mode: "embedding", pooling: "last" })).toContain("--embedding\n--pooling last\n");
    expect(text({ mode: "rerank" })).toMatch(
      /--cache-ram 0\n(.*\n)*--embedding\n--pooling rank\n--rerank\n--cors.*$/,
    );
  });

  it("for an older build leaves out what the build does not have", () => {
    expect(text({}, {}, older)).toMatchInlineSnapshot(`
      "--model /m.gguf
      --host 127.0.0.1
      --port 21000
      --alias chat
      --metrics
      --no-webui
      --ctx-size 4096
      --parallel 1
      --n-gpu-layers 999"
    `);
  });

  it.each([
    ["ngram-simple", "--spec-ngram-simple-size-m"],
    ["ngram-map-k", "--spec-ngram-map-k-size-m"],
    ["ngram-map-k4v", "--spec-ngram-map-k4v-size-m"],
    ["ngram-mod", "--spec-ngram-mod-n-max"],
  ] as const)("limits the drafts of %s", (type, flag) => {
    const settings = { speculativeDecoding: { type, nDraftMax: 9 } };
    expect(text(settings)).toContain(`--spec-type ${type}\n${flag} 9\n`);
  });

  it("for builds of one LoRA adapter per flag repeats the flag", () => {
    const perFlag = parseCapabilities(
      "--lora-scaled FNAME SCALE               path to LoRA adapter with user defined scaling",
      "",
    );
    const loraAdapters = [
      { path: "/a.gguf", scale: 1 },
      { path: "/b.gguf", scale: 0.5 },
    ];
    expect(text({}, { loraAdapters }, perFlag)).toContain(
      "--lora-scaled /a.gguf 1\n--lora-scaled /b.gguf 0.5",
    );
  });

  it("turns Jinja on for a chat template where the build has it off", () => {
    const off = parseCapabilities(
      "--jinja                                 use jinja template for chat (default: disabled)\n" +
        "--chat-template-file JINJA_TEMPLATE_FILE\n",
      "",
    );
    expect(text({}, { chatTemplatePath: "/t" }, off)).toContain("--jinja\n--chat-template-file /t");
    expect(text({}, { chatTemplatePath: "/t" })).not.toContain("--jinja");
  });

  it("keeps a context within what the model was trained for, times the slots", () => {
    expect(text({ parallelSlots: 2 }, { gguf: { contextLength: 2048 } })).toContain(
      "--ctx-size 4096\n--parallel 2",
    );
    expect(text({ contextSize: 9000 }, { gguf: { contextLength: 2048 } })).toContain("--ctx-size 9000");
  });

  it.each<[string, Partial<EngineSettings>, string]>([
    ["unified cache", { kvUnified: true }, "kvUnified: llama-server b5000 has no --kv-unified"],
    ["prompt cache", { promptCacheMiB: 10 }, "promptCacheMiB: llama-server b5000 has no --cache-ram"],
    ["reasoning budget", { reasoningBudget: 5 }, "reasoningBudget: llama-server b5000 takes no budget but 0"],
    ["experts", { moeCPUOffload: true }, "moeCPUOffload: llama-server b5000 has no --cpu-moe"],
    [
      "own heads",
      { speculativeDecoding: { type: "mtp" } },
      "speculativeDecoding.type: llama-server b5000 has no --spec-type",
    ],
  ])("names a setting the older build cannot honor: %s", (_name, settings, problem) => {
    expect(text(settings, {}, older)).toContain(`! SettingNotSupported ${problem}`);
  });

  it.each<[string, Partial<EngineSettings>, Partial<LlamaServerInput>, string]>([
    [
      "longrope",
      { ropeScaling: { type: "longrope" } },
      {},
      "SettingNotSupported ropeScaling.type: llama-server b11669 does not know longrope; it takes none, linear, yarn",
    ],
    [
      "an unknown cache type",
      { cacheTypeCustomK: "q3_9" },
      {},
      "SettingNotSupported cacheTypeK: llama-server b11669 does not know q3_9",
    ],
    [
      "blocks that do not fit the head",
      { cacheTypeK: "q8_0" },
      { gguf: { keyLength: 16 } },
      "CacheTypeMismatch cacheTypeK: q8_0 has blocks of 32, which do not divide this model's head length 16",
    ],
    [
      "quantized values without flash attention",
      { cacheTypeV: "q8_0", flashAttention: false },
      {},
      "CacheTypeMismatch cacheTypeV",
    ],
    [
      "a draft without a model",
      { speculativeDecoding: { type: "draft" } },
      {},
      "SettingNotSupported speculativeDecoding.draftModelRef: draft-simple needs a draft model",
    ],
    [
      "a message without a budget",
      { reasoningBudgetMessage: "x" },
      {},
      "SettingNotSupported reasoningBudgetMessage: it needs reasoningBudget",
    ],
    [
      "a limit that ngram-cache does not have",
      { speculativeDecoding: { type: "ngram-cache", nDraftMax: 4 } },
      {},
      "SettingNotSupported speculativeDecoding.nDraftMax: ngram-cache has no such limit",
    ],
    [
      "two chat templates",
      { extraArgs: ["--chat-template", "chatml"] },
      { chatTemplatePath: "/t" },
      "SettingNotSupported chatTemplate: extraArgs has --chat-template too",
    ],
    [
      "a path that its list would cut",
      {},
      { loraAdapters: [{ path: "/a,b.gguf", scale: 1 }] },
      "SettingNotSupported loraAdapters: /a,b.gguf has a comma or a colon in its path",
    ],
    ["a setting of oMLX", { turboQuantBits: 3 }, {}, "SettingNotSupported turboQuantBits"],
  ])("refuses %s", (_name, settings, changes, problem) => {
    expect(text(settings, changes)).toContain(`! ${problem}`);
  });
});

describe("extraArgs", () => {
  it.each([
    [["--temp", "0.1", "-s", "-1"], "--temp 0.1 -s -1"],
    [["--chat_template", "chatml"], "--chat-template chatml"],
    [["--load-mode", "mlock"], "--load-mode mlock"],
    [["--grammar", "--model"], "--grammar --model"],
  ])("%j pass", (extraArgs, tail) => {
    const { argv, problems } = build({ extraArgs });
    expect(problems).toEqual([]);
    expect(argv.join(" ").endsWith(tail)).toBe(true);
  });

  it.each([
    [["--log-file", "/etc/passwd"], "--log-file is not allowed"],
    [["--slot-save-path", "/"], "--slot-save-path is set by slotSaveRestore"],
    [["--path", "/"], "--path is not allowed"],
    [["--media-path", "/"], "--media-path is not allowed"],
    [["--lora", "/x"], "--lora is set by loraAdapters"],
    [["--rpc", "1.2.3.4:5"], "--rpc is not allowed"],
    [["--grammar-file", "/x"], "--grammar-file is not allowed"],
    [["-jf", "/x"], "-jf is not allowed"],
    [["--chat-template-file", "/x"], "--chat-template-file is set by chatTemplate"],
    [["--models-dir", "/x"], "--models-dir is not allowed"],
    [["--swa-full"], "--swa-full is "],
    [["-hfd", "a/b"], "-hfd is not allowed"],
    [["--agent"], "--agent is not allowed"],
    [["-m", "/x"], "-m is set by modelRef"],
    [["--hf_repo", "a/b"], "--hf-repo is set by modelRef"],
    [["--port", "1"], "--port is set by Metalbridge"],
    [["--host", "0.0.0.0"], "--host is set by Metalbridge"],
    [["-c", "9"], "-c is set by contextSize"],
    [["-np", "9"], "-np is set by parallelSlots"],
    [["-nkvo"], "-nkvo is set by noKvOffload"],
    [["-no-kvu"], "-no-kvu is set by kvUnified"],
    [["--api-key", "x"], "--api-key is set by auth"],
    [["--mlock"], "llama-server b11669 has no --mlock; use --load-mode mlock"],
    [["--draft-max", "3"], "llama-server b11669 has no --draft-max"],
    [["--nonsense"], "llama-server b11669 has no --nonsense"],
    [["--temp=1"], "--temp=1: write flag and value as two entries"],
    [["--temp"], "--temp needs a value"],
    [["word"], '"word" is not a flag'],
    [[""], '"" is not a flag'],
    [["--split-mode", "most"], "--split-mode does not take most"],
    [["--pooling", "mean"], "--pooling is set by pooling"],
    [["--spec-ngram-mod-n-max", "9"], "--spec-ngram-mod-n-max is set by speculativeDecoding"],
  ])("%j are refused by name", (extraArgs, why) => {
    const { argv, problems } = build({ extraArgs });
    expect(problems).toEqual([
      { field: "extraArgs", code: "ExtraArgRefused", why: expect.stringContaining(why) },
    ]);
    expect(argv).toEqual(build({}).argv);
  });
});
