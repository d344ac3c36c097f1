import { expect, test } from "vitest";
import { allModelsOf, mainModelOf, modelNamesOf, speculativeDecodingOf } from "./roles.ts";
import { inferenceServiceSpecSchema } from "./spec.ts";

const parse = (spec: object) => inferenceServiceSpecSchema.parse(spec);

const oldForm = parse({
  modelRef: "large",
  speculativeDecoding: { type: "draft", draftModelRef: "small", nDraftMax: 6 },
  loraAdapters: [{ modelRef: "tone", scale: 0.5 }, { modelRef: "style" }],
});
const newForm = parse({
  modelRefs: [
    { name: "tone", role: "lora" },
    { name: "eyes", role: "projector" },
    { name: "large" },
    { name: "small", role: "draft" },
    { name: "accent", role: "lora" },
  ],
});

test("both forms give the same names for main model and draft, each with its field", () => {
  expect(modelNamesOf(oldForm)).toEqual({
    main: { name: "large", field: "spec.modelRef" },
    draft: { name: "small", field: "spec.speculativeDecoding.draftModelRef" },
    projector: undefined,
    adapters: [
      { name: "tone", field: "spec.loraAdapters[0].modelRef", scale: 0.5 },
      { name: "style", field: "spec.loraAdapters[1].modelRef", scale: 1 },
    ],
  });
  expect(modelNamesOf(newForm)).toEqual({
    main: { name: "large", field: "spec.modelRefs[2].name" },
    draft: { name: "small", field: "spec.modelRefs[3].name" },
    projector: { name: "eyes", field: "spec.modelRefs[1].name" },
    adapters: [
      { name: "accent", field: "spec.modelRefs[4].name" },
      { name: "tone", field: "spec.modelRefs[0].name" },
    ],
  });
  expect([mainModelOf(oldForm), mainModelOf(newForm)]).toEqual(["large", "large"]);
});

test("draftModel of older manifests is the same as role draft", () => {
  const speculativeDecoding = { type: "draft", draftModel: "small", nDraftMax: 6 };
  const older = parse({ modelRef: "large", speculativeDecoding });
  expect(modelNamesOf(older).draft).toEqual({
    name: "small",
    field: "spec.speculativeDecoding.draftModel",
  });
  expect(allModelsOf(older)).toEqual(["large", "small"]);
  expect(speculativeDecodingOf(older)).toEqual({ type: "draft", nDraftMax: 6 });
  const both = parse({
    modelRefs: [{ name: "large" }, { name: "small", role: "draft" }],
    speculativeDecoding,
  });
  expect(modelNamesOf(both).draft).toEqual({ name: "small", field: "spec.modelRefs[1].name" });
});

test("the order of modelRefs, which the API server merges like a map, changes nothing", () => {
  const reversed = parse({ modelRefs: [...(newForm.modelRefs ?? [])].reverse() });
  const names = ({ adapters, ...others }: ReturnType<typeof modelNamesOf>) =>
    JSON.stringify([
      Object.entries(others).map(([role, one]) => [role, one?.name]),
      adapters.map(({ name }) => name),
    ]);
  expect(names(modelNamesOf(reversed))).toBe(names(modelNamesOf(newForm)));
});

test("all Models of a service are named once, the main model first", () => {
  expect(allModelsOf(oldForm)).toEqual(["large", "small", "tone", "style"]);
  expect(allModelsOf(newForm)).toEqual(["large", "small", "eyes", "accent", "tone"]);
  const twice = parse({ modelRef: "m", loraAdapters: [{ modelRef: "a" }, { modelRef: "a", scale: 2 }] });
  expect(allModelsOf(twice)).toEqual(["m", "a"]);
});

test("a draft model is used without further settings, and settings stay", () => {
  expect(speculativeDecodingOf(newForm)).toEqual({ type: "draft" });
  expect(speculativeDecodingOf(oldForm)).toMatchObject({ type: "draft", nDraftMax: 6 });
  const tuned = parse({ ...newForm, speculativeDecoding: { type: "draft", nDraftMax: 3 } });
  expect(speculativeDecodingOf(tuned)).toEqual({ type: "draft", nDraftMax: 3 });
  expect(speculativeDecodingOf(parse({ modelRefs: [{ name: "m" }] }))).toBeUndefined();
});
