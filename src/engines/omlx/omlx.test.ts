import { expect, test } from "vitest";
import type { EngineSettings } from "../../api/engine-settings.ts";
import { omlxClaims } from "./claims.ts";
import { classifyExit, omlxLoadFailure, ownLines } from "./exit.ts";
import { hotCacheBytes, modelName, omlxSettings, serverName } from "./settings.ts";

const chat = (settings: Partial<EngineSettings> = {}): EngineSettings => ({ mode: "chat", ...settings });

test("a model is pinned with its share of the context, and the rest belongs to the server", () => {
  expect(omlxSettings(chat())).toEqual({
    model: { is_pinned: true, ttl_seconds: null, max_context_window: 4096 },
    flags: ["--max-concurrent-requests", "1", "--no-cache"],
  });
  const all = chat({
    contextSize: 16384,
    parallelSlots: 4,
    turboQuantBits: 6,
    pagedSSDCacheDir: "/cache",
    pagedSSDCacheMaxSize: "20GB",
    hotCacheMaxSize: "1.5GB",
    extraArgs: ["--embedding-batch-size", "64"],
  });
  expect(omlxSettings(all)).toEqual({
    model: {
      is_pinned: true,
      ttl_seconds: null,
      max_context_window: 4096,
      turboquant_kv_enabled: true,
      turboquant_kv_bits: 6,
    },
    flags: [
      ...["--max-concurrent-requests", "4", "--paged-ssd-cache-dir", "/cache"],
      ...["--paged-ssd-cache-max-size", "20GB", "--hot-cache-max-size", "1.5GB"],
      ...["--embedding-batch-size", "64"],
    ],
  });
  expect(omlxSettings(chat(), { contextLength: 2048 }).model.max_context_window).toBe(2048);
});

test("services share a server by its flags, and a model by weights and its own settings", () => {
  const [one, quantized] = [omlxSettings(chat()), omlxSettings(chat({ turboQuantBits: 3 }))];
  expect(serverName(one)).toBe(serverName(quantized));
  expect(serverName(one)).not.toBe(serverName(omlxSettings(chat({ parallelSlots: 2 }))));
  expect(modelName("a", one)).toBe(modelName("a", omlxSettings(chat({ contextSize: 4096 }))));
  expect(modelName("a", one)).not.toBe(modelName("a", quantized));
  expect(modelName("a", one)).not.toBe(modelName("b", one));
  expect(modelName("a", one)).toMatch(/^metalbridge-[0-9a-f]{16}$/);
});

test.each([
  ["an argument that reads a file", { extraArgs: ["--mcp-config=/etc/x"] }, "ExtraArgRefused"],
  ["a key in the arguments", { extraArgs: ["--api-key", "x"] }, "ExtraArgRefused"],
  ["a size that is none", { hotCacheMaxSize: "8 apples" }, "EngineSettingsRefused"],
  ["a flag in place of a size", { pagedSSDCacheMaxSize: "--host" }, "EngineSettingsRefused"],
] as const)("%s is refused", (_, settings, code) => {
  const asked = { ...settings } as unknown as Partial<EngineSettings>;
  expect(() => omlxSettings(chat(asked))).toThrowError(expect.objectContaining({ code }));
});

test.each([
  ["8GB", 8 * 2 ** 30],
  ["512MB", 512 * 2 ** 20],
  ["1.5GiB", 1.5 * 2 ** 30],
  ["100", 100],
])("a cache of %s has %i bytes", (hotCacheMaxSize, bytes) => {
  expect(hotCacheBytes(chat({ hotCacheMaxSize }))).toBe(bytes);
});

test("the claim counts the KV cache by its bits, and the cache for earlier requests", () => {
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
  const claim = (settings: Partial<EngineSettings> = {}) =>
    omlxClaims.estimate(summary, chat(settings), "metal");
  const plain = claim();
  expect(plain).toMatchObject({ promptCacheBytes: 0, kvBytes: 16 * 4096 * 2 * 8 * 64 * 2 });
  const [three, six] = [claim({ turboQuantBits: 3 }), claim({ turboQuantBits: 6 })];
  expect(three.kvBytes).toBeLessThan(six.kvBytes);
  expect(six.kvBytes).toBeLessThan(plain.kvBytes);
  const cached = claim({ hotCacheMaxSize: "1GB" });
  expect(cached.claimBytes - plain.claimBytes).toBe(2 ** 30);
});

test.each([
  [507, "Not enough memory", "EngineOutOfMemory"],
  [500, "Model type llama9 not supported.", "EngineBadModel"],
  [401, "Invalid API key", "RuntimeBroken"],
  [404, "Model 'x' not found", undefined],
  [409, "busy", undefined],
  [503, "queue full", undefined],
])("a load answered with %i %j is %s", (status, words, code) => {
  expect(omlxLoadFailure(status, words)?.code).toBe(code);
});

test.each([
  ["a crash", { code: 1 }, "", "EngineCrashed"],
  ["KILL", { signal: "SIGKILL" }, "", "EngineKilled"],
  [
    "a taken port",
    { code: 1 },
    "ERROR:    [Errno 48] error while attempting to bind on address ('127.0.0.1', 1): address already in use",
    "EnginePortTaken",
  ],
  [
    "an unknown flag",
    { code: 2 },
    "omlx: error: unrecognized arguments: --kv-cache-quant",
    "EngineFlagRefused",
  ],
  ["a host without a key", { code: 1 }, "Configuration error: a key is needed", "EngineSettingsRefused"],
  [
    "a kernel's count",
    { code: 134 },
    '2026-11-22 10:00:00,123 - omlx.pool - ERROR - [-] - IOGPUMemory.cpp "completeMemory() prepare count underflow"',
    "EngineOutOfMemory",
  ],
  ["a program that is gone", { code: 127 }, "", "RuntimeNotInstalled"],
] as const)("an end by %s is named, as that of all its models", (_, exit, log, code) => {
  expect(classifyExit(exit, log)).toMatchObject({
    code,
    message: expect.stringContaining("with all its models"),
  });
});

test("lines that belong to a request, which may hold clients' text, stay in the namespace", () => {
  const own =
    "2026-11-22 10:00:00,123 - omlx.enforcer - INFO - [-] - Process memory enforcer started (tier=balanced)";
  const request = "2026-11-22 10:00:01,000 - omlx.chat - INFO - [req-1] - Chat completion: model=secret";
  expect(ownLines([own, request, 'INFO: 127.0.0.1 - "GET /v1/models/secret"'].join("\n"))).toBe(own);
});
