import { open } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { TinyModelOptions } from "../../cli/demo/tiny-model.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { runLlamaServer } from "../../test/fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { parseGgufHeader } from "../gguf/header.ts";
import { type GgufSummary, summarizeGguf } from "../gguf/summary.ts";
import { type ClaimSettings, estimateClaim } from "./claim.ts";

const MIB = 1 << 20;
const program = findLlamaServer();

/** Sparse models of at least 100 MiB, so that the engine's rounding stays below a percent. */
const models = {
  dense: {
    layers: 8,
    embeddingSize: 1024,
    heads: 16,
    kvHeads: 4,
    feedForwardSize: 2816,
    vocabularySize: 32_000,
    layerType: "f16",
  },
  wide: {
    layers: 4,
    embeddingSize: 1536,
    heads: 12,
    kvHeads: 2,
    feedForwardSize: 8960,
    vocabularySize: 151_936,
    layerType: "q8_0",
  },
  quantised: {
    layers: 6,
    embeddingSize: 2048,
    heads: 16,
    kvHeads: 8,
    feedForwardSize: 8192,
    vocabularySize: 32_000,
    layerType: "q4_k",
  },
} as const satisfies Record<string, TinyModelOptions>;

const cases: readonly (readonly [keyof typeof models, ClaimSettings])[] = [
  ["dense", { contextSize: 8192, parallelSlots: 4, flashAttention: false }],
  ["wide", { contextSize: 32_768, parallelSlots: 4, kvUnified: true }],
  [
    "quantised",
    { contextSize: 16_384, parallelSlots: 2, cacheTypeK: "q8_0", cacheTypeV: "q8_0", uBatchSize: 1024 },
  ],
];

// Without a llama-server (npm run setup gets one) there is nothing to compare with.
describe.skipIf(program === undefined)("the claim against the buffers that llama-server prints", () => {
  test.each(cases)("%s with %j", async (name, settings) => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, "model.gguf");
    await writeTinyGguf(path, { sparse: true, ...models[name] });
    const claim = estimateClaim(await summaryOf(path), settings);
    await using server = await runLlamaServer(program ?? "", ["-m", path, ...argumentsFor(settings)]);
    const printed = (what: string) =>
      [...server.log().matchAll(new RegExp(`${what} buffer size = +([\\d.]+) MiB`, "g"))].reduce(
        (sum, [, mib]) => sum + Number(mib),
        0,
      );
    const pairs = [
      [claim.weightsBytes, printed("model")],
      [claim.kvBytes, printed("KV")],
      [claim.computeBytes, printed("compute")],
      [claim.outputBytes, printed("output")],
    ] as const;
    for (const [claimed, mib] of pairs) expect(claimed / MIB / mib).toBeCloseTo(1, 1);
    const sum = pairs.reduce((total, [, mib]) => total + mib, 0);
    expect(pairs.reduce((total, [claimed]) => total + claimed, 0) / MIB / sum).toBeCloseTo(1, 2);
  });
});

async function summaryOf(path: string): Promise<GgufSummary> {
  await using file = await open(path);
  const bytes = new Uint8Array(16 << 20);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
  const parsed = parseGgufHeader(bytes.subarray(0, bytesRead));
  if (!parsed.done) throw new Error("the header is longer than expected");
  return summarizeGguf(parsed.header);
}

function argumentsFor(settings: ClaimSettings): string[] {
  const {
    contextSize,
    parallelSlots,
    kvUnified,
    flashAttention = true,
    uBatchSize = 512,
    cacheTypeK = "f16",
    cacheTypeV = "f16",
  } = settings;
  const values = {
    "-c": contextSize,
    "-np": parallelSlots,
    "-fa": flashAttention ? "on" : "off",
    "-ub": uBatchSize,
    "-ctk": cacheTypeK,
    "-ctv": cacheTypeV,
    "-lv": 4,
  };
  return [
    ...Object.entries(values).flatMap(([flag, value]) => [flag, String(value)]),
    kvUnified ? "-kvu" : "-no-kvu",
    "--no-warmup",
    "--cache-ram",
    "0",
  ];
}
