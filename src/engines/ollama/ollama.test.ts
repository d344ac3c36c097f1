import { expect, test } from "vitest";
import type { EngineSettings } from "../../api/engine-settings.ts";
import { isOwnModel } from "../contract/shared-daemon.ts";
import { ollamaClaims } from "./claims.ts";
import { classifyExit, ollamaLoadFailure, ollamaPullFailure, ownLines } from "./exit.ts";
import { modelName, ollamaSettings, serverName } from "./settings.ts";

const chat = (settings: Partial<EngineSettings> = {}): EngineSettings => ({ mode: "chat", ...settings });

test("each request gets its share of the context, and the rest belongs to the server", () => {
  expect(ollamaSettings(chat())).toEqual({
    parameters: { num_ctx: 4096 },
    environment: { OLLAMA_NUM_PARALLEL: "1" },
  });
  const all = chat({
    contextSize: 8192,
    parallelSlots: 4,
    batchSize: 256,
    gpuLayers: 0,
    cacheTypeK: "q8_0",
    cacheTypeV: "q8_0",
  });
  expect(ollamaSettings(all)).toEqual({
    parameters: { num_ctx: 2048, num_batch: 256, num_gpu: 0 },
    environment: { OLLAMA_NUM_PARALLEL: "4", OLLAMA_FLASH_ATTENTION: "1", OLLAMA_KV_CACHE_TYPE: "q8_0" },
  });
  expect(ollamaSettings(chat({ gpuLayers: -1, flashAttention: false }), { contextLength: 2048 })).toEqual({
    parameters: { num_ctx: 2048 },
    environment: { OLLAMA_NUM_PARALLEL: "1", OLLAMA_FLASH_ATTENTION: "0" },
  });
});

test("services with the same settings share a server, and those with the same weights too share the model", () => {
  const [one, same] = [ollamaSettings(chat()), ollamaSettings(chat({ contextSize: 4096 }))];
  const other = ollamaSettings(chat({ contextSize: 8192 }));
  expect(serverName(one)).toBe(serverName(same));
  expect(serverName(one)).not.toBe(serverName(other));
  expect(modelName("a", one)).toBe(modelName("a", same));
  expect(modelName("a", one)).not.toBe(modelName("b", one));
  expect(modelName("a", one)).toMatch(/^metalbridge-[0-9a-f]{16}:latest$/);
  expect(isOwnModel(modelName("a", one))).toBe(true);
  expect(isOwnModel("llama3:8b")).toBe(false);
});

test.each([
  ["rerank", { mode: "rerank" }, "SettingNotSupported"],
  ["keys and values of different types", { cacheTypeK: "q8_0" }, "SettingNotSupported"],
  ["a type it does not know", { cacheTypeK: "q5_1", cacheTypeV: "q5_1" }, "SettingNotSupported"],
  [
    "a quantized cache without flash attention",
    { cacheTypeK: "q4_0", cacheTypeV: "q4_0", flashAttention: false },
    "CacheTypeMismatch",
  ],
] as const)("%s is refused", (_, settings, code) => {
  expect(() => ollamaSettings(chat(settings))).toThrowError(expect.objectContaining({ code }));
});

test("the claim has no prompt cache, and counts a quantized cache only where Ollama makes one", () => {
  const summary = {
    weightsBytes: 2 ** 30,
    layerCount: 16,
    headCount: 32,
    headCountKV: 8,
    keyLength: 64,
    valueLength: 64,
    embeddingSize: 2048,
    contextLength: 8192,
  };
  const plain = ollamaClaims.estimate(summary, chat(), "metal");
  expect(plain).toMatchObject({ promptCacheBytes: 0, kvBytes: 16 * 4096 * 2 * 8 * 64 * 2 });
  const quantized = chat({ cacheTypeK: "q8_0", cacheTypeV: "q8_0" });
  expect(ollamaClaims.estimate(summary, quantized, "metal").kvBytes).toBeLessThan(plain.kvBytes);
  expect(ollamaClaims.estimate(summary, quantized, "cpu").kvBytes).toBe(plain.kvBytes);
});

test.each([
  ["unable to load model: /x/sha256-1", "EngineBadModel"],
  ["supplied file was not in GGUF format", "EngineBadModel"],
  ["model requires more system memory (9.3 GiB) than is available (2.1 GiB)", "EngineOutOfMemory"],
  ["this model may be incompatible with your version of Ollama", "RuntimeTooOld"],
  ["llama runner process has terminated: signal: killed", "EngineCrashed"],
])("a load refused with %j is %s", (words, code) => {
  expect(ollamaLoadFailure(words)).toEqual({ code, message: `Ollama: ${words}` });
});

test.each([
  ["pull model manifest: file does not exist", "SourceNotFound"],
  ['pull model manifest: Get "https://r/v2": dial tcp: lookup r: no such host', "SourceUnreachable"],
  ["write /m/blobs/sha256-1-partial: no space left on device", "DiskFull"],
  ["digest mismatch, file must be downloaded again: want a, got b", "SourceTruncated"],
  ["max retries exceeded: EOF", "SourceUnavailable"],
])("a pull that failed with %j is %s", (words, code) => {
  expect(ollamaPullFailure(words)).toMatchObject({ code });
  // What a registry answers may be what only this host can read.
  const withBody = ollamaPullFailure(`${words}: {"password":"s3cret"}`);
  expect(withBody.message).not.toMatch(/s3cret|password/);
  expect(withBody.code).toBe(code);
});

test.each([
  ["TERM, to which it answers with 0", { code: 0 }, "", "EngineKilled"],
  ["KILL", { signal: "SIGKILL" }, "", "EngineKilled"],
  [
    "a taken port",
    { code: 1 },
    "Error: listen tcp 127.0.0.1:1: bind: address already in use",
    "EnginePortTaken",
  ],
  ["a panic", { code: 2 }, "panic: runtime error", "EngineCrashed"],
  ["a program that is gone", { code: 127 }, "", "RuntimeNotInstalled"],
] as const)("an end by %s is named", (_, exit, log, code) => {
  expect(classifyExit(exit, log)).toMatchObject({ code });
  expect(classifyExit("unknown", log)).toMatchObject({ code: "EngineEndUnknown" });
});

test("a kill under memory pressure is taken for what it most likely was", () => {
  const run = { wasReady: true, memory: "critical" } as const;
  expect(classifyExit({ signal: "SIGKILL" }, "", run)).toMatchObject({ code: "EngineOutOfMemory" });
});

test("its access log, which holds what clients asked for, stays in the namespace", () => {
  const own = 'time=2026-11-22T17:25:52.147Z level=INFO source=routes.go:1288 msg="Listening"';
  const access = '[GIN] 2026/11/22 - 17:25:52 | 404 | 64µs | 127.0.0.1 | GET "/v1/models/secret"';
  expect(ownLines([own, access, "llama_context: n_ctx = 1024"].join("\n"))).toBe(
    `${own}\nllama_context: n_ctx = 1024`,
  );
});
