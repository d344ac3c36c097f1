import { expect, test } from "vitest";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import type { NamedModels } from "./named-models.ts";
import { resolveService } from "./resolve.ts";
import { GGUF, readyModel } from "./testing/models.ts";

const GIB = 1024 ** 3;
function resolve(main: Model, spec: object, found: NamedModels) {
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse(spec),
  };
  return resolveService({ service, replicas: [], ...found, model: main });
}

const roles = [
  { name: "tiny" },
  { name: "small", role: "draft" },
  { name: "eyes", role: "projector" },
  { name: "style", role: "lora" },
];
const sized = (source: string) => readyModel({ source }, { weightsBytes: 900, sizeBytes: 1_000, gguf: GGUF });
const companions = {
  draftModel: sized("s3://bucket/small.gguf"),
  projectorModel: sized("hf://org/eyes/mmproj.gguf"),
  loraModels: [sized("oci://ghcr.io/org/style:v1")],
};

test("Models with roles, each of any source, are in the template and in the claim", () => {
  const main = readyModel(
    { mmproj: "mmproj-f16.gguf" },
    { weightsBytes: GIB, sizeBytes: 2 * GIB, gguf: GGUF },
  );
  expect(resolve(main, { modelRefs: roles }, companions)).toMatchObject({
    template: {
      draft: { source: "s3://bucket/small.gguf" },
      projector: { source: "hf://org/eyes/mmproj.gguf" },
      loraAdapters: [{ model: { source: "oci://ghcr.io/org/style:v1" }, scale: 0, servedName: "style" }],
      engine: { speculativeDecoding: { type: "draft" } },
    },
    claim: {
      at: "estimated",
      memory: { loraBytes: 1_000, projectorBytes: 1_250, draftBytes: expect.any(Number) },
    },
    unhonored: [],
  });
});

test.each([
  ["small", { ...companions, draftModel: undefined }, "spec.modelRefs[1].name"],
  ["eyes", { ...companions, projectorModel: undefined }, "spec.modelRefs[2].name"],
  ["style", { ...companions, loraModels: [undefined] }, "spec.modelRefs[3].name"],
])("a service waits for its Model %s, and the message names the field", (name, found, field) => {
  expect(
    resolve(readyModel({}, { weightsBytes: GIB, gguf: GGUF }), { modelRefs: roles }, found),
  ).toMatchObject({
    code: "ModelNotFound",
    message: `Model ${name} does not exist in this namespace; create it or correct ${field}`,
  });
});

test("all ways to name a main model and a draft give the same revision", () => {
  const main = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const { draftModel } = companions;
  const decoding = (field: string) => ({
    modelRef: "tiny",
    speculativeDecoding: { type: "draft", [field]: "small" },
  });
  const revisions = [decoding("draftModelRef"), decoding("draftModel"), { modelRefs: roles.slice(0, 2) }].map(
    (spec) => {
      const resolved = resolve(main, spec, { draftModel });
      return resolved.at === "resolved" ? resolved.template.revision : resolved.message;
    },
  );
  expect(revisions).toEqual([expect.stringMatching(/^[0-9a-z]{10}$/), revisions[0], revisions[0]]);
});

test("roles that a runtime does not load are listed, and adapters with names need the gate", () => {
  const main = readyModel({ source: "ollama://tiny", format: "ollama" }, { weightsBytes: GIB, gguf: GGUF });
  expect(resolve(main, { modelRefs: roles, runtime: "ollama" }, companions)).toMatchObject({
    unhonored: expect.arrayContaining([
      "spec.modelRefs eyes (projector)",
      "spec.modelRefs small (draft)",
      "spec.modelRefs style (lora)",
    ]),
  });
  const plain = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const endpoint = { gate: "Never" };
  expect(resolve(plain, { modelRefs: roles, endpoint }, companions)).toMatchObject({
    code: "GateNeeded",
  });
});
