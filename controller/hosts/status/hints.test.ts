import { expect, test } from "vitest";
import { inferenceServiceSpecSchema } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { NO_BENCHMARKS } from "../../../src/capacity/benchmark/table.ts";
import { DIRECT } from "../plan/observed.ts";
import { draftService } from "../plan/plan.ts";
import { hintsFor } from "./hints.ts";

const GIB = 1024 ** 3;
const gguf = {
  architecture: "llama",
  contextLength: 131_072,
  embeddingSize: 4096,
  layerCount: 32,
  headCount: 32,
  headCountKV: 8,
  keyLength: 128,
  valueLength: 128,
};
const model = {
  metadata: { name: "llama", namespace: "default" },
  spec: { source: "hf://org/model/model.gguf", hardware: { accelerator: "metal" } },
  status: { phase: "Ready", format: "gguf", weightsBytes: 8 * GIB, gguf },
} as unknown as Model;

test("hints what would fit on the nearest hosts that are short of memory, and nothing for the others", () => {
  const spec = inferenceServiceSpecSchema.parse({ modelRef: "llama", contextSize: 131_072 });
  const service = { metadata: { name: "chat", namespace: "default", uid: "u" }, spec };
  const nothing = {
    hosts: new Map(),
    benchmarks: NO_BENCHMARKS,
    replicas: [],
    slices: [],
    relaySlices: [],
    sealing: DIRECT,
    kubeServices: [],
    revisions: [],
  };
  const draft = draftService({ service, model, ...nothing });
  const short = (host: string, gib: number) => ({
    host,
    code: "HostMemoryShort" as const,
    message: "",
    shortBytes: gib * GIB,
  });
  const cordoned = { host: "e", code: "HostCordoned" as const, message: "it is cordoned" };
  const hints = hintsFor(draft, [short("a", 1), short("b", 20), short("c", 2), short("d", 3), cordoned]);
  expect([...hints.keys()]).toEqual(["a", "c"]);
  expect(hints.get("a")).toMatch(
    /^fits with cacheTypeK and cacheTypeV q8_0: 1\d.*; or with contextSize 1\d{5} \(now 131072\)/,
  );
});
