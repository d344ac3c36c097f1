import { expect, test } from "vitest";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { checkedIdentity } from "./submit.ts";

const SIGNED = "https://models.example/a.gguf?X-Signature=secret";
const measured = { build: "b1", deviceClass: "nvidia-l40s", machine: "gpu-1", runtime: "vllm" } as const;

function model(quantization?: string): Model {
  const gguf = { architecture: "llama", contextLength: 8, layerCount: 1, quantization };
  const given = { metadata: { name: "a" }, spec: { source: SIGNED } };
  return { ...modelSchema.parse(given), status: { phase: "Ready", gguf } } as unknown as Model;
}

test("a result names the source without its credentials, and a shortened quantization", () => {
  const identity = checkedIdentity(model("Q".repeat(200)), { ...measured, settings: { gpus: "2" } });
  expect(identity).toEqual({
    ...measured,
    model: "https://models.example/a.gguf",
    quantization: "Q".repeat(64),
    settings: { gpus: "2" },
  });
});

test.each([
  ["deviceClass", { deviceClass: "a".repeat(64) }],
  ["build", { build: "b1\n" }],
  ["machine", { machine: "" }],
])("an invalid %s is refused before the measurement", (name, change) => {
  const identity = () => checkedIdentity(model(), { ...measured, settings: {}, ...change });
  expect(identity).toThrow(new RegExp(`^(BenchSubmitFailed: )?${name}: `));
});
