/** Bad spec.modelRefs: the real API server refuses each with a message that names the field. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";

const main = { name: "m" };
const roles: readonly (readonly [
  title: string,
  modelRefs: readonly object[],
  says: RegExp,
  further?: object,
])[] = [
  ["both forms", [main], /set exactly one of spec\.modelRef and/, { "spec.modelRef": "m" }],
  ["no Models", [], /spec\.modelRefs/],
  ["no main model", [{ name: "d", role: "draft" }], /spec\.modelRefs names no Model with role main/],
  // By role, not by name: a Model may be called main.
  [
    "a name that is a role",
    [{ name: "main", role: "lora" }],
    /spec\.modelRefs names no Model with role main/,
  ],
  ["two main models", [main, { name: "n" }], /more than one Model with role main/],
  [
    "two main models with a draft",
    [main, { name: "n", role: "main" }, { name: "d", role: "draft" }],
    /more than one Model with role main/,
  ],
  [
    "two drafts",
    [main, { name: "d", role: "draft" }, { name: "e", role: "draft" }],
    /more than one Model with role draft/,
  ],
  [
    "two projectors",
    [main, { name: "p", role: "projector" }, { name: "q", role: "projector" }],
    /more than one Model with role projector/,
  ],
  ["a draft that is the main model", [main, { name: "m", role: "draft" }], /spec\.modelRefs\[1\]: Duplicate/],
  [
    "an adapter twice",
    [main, { name: "a", role: "lora" }, { name: "a", role: "lora" }],
    /spec\.modelRefs\[2\]: Duplicate/,
  ],
  [
    "too many adapters",
    [main, ...Array.from({ length: 17 }, (_, index) => ({ name: `a${index}`, role: "lora" }))],
    /more than 16 Models with role lora/,
  ],
  ["role that does not exist", [{ name: "m", role: "target" }], /role: Unsupported value/],
  ["name that is no name", [{ name: "My Model" }], /spec\.modelRefs\[0\]\.name/],
  [
    "a draft in both fields",
    [main, { name: "d", role: "draft" }],
    /only one of spec\.speculativeDecoding\.draftModelRef and role draft/,
    { "spec.speculativeDecoding": { type: "draft", draftModelRef: "e" } },
  ],
  [
    "another draft in the older field",
    [main, { name: "d", role: "draft" }],
    /draftModel names another Model than draftModelRef or role draft/,
    { "spec.speculativeDecoding": { type: "draft", draftModel: "e" } },
  ],
  [
    "a draft in the other field that is the main model",
    [main],
    /draftModelRef must name another Model/,
    { "spec.speculativeDecoding": { type: "draft", draftModelRef: "m" } },
  ],
  [
    "a draft without a draft type",
    [main, { name: "d", role: "draft" }],
    /role draft in spec\.modelRefs go only with/,
    { "spec.speculativeDecoding": { type: "ngram-mod" } },
  ],
  [
    "a draft for embeddings",
    [main, { name: "d", role: "draft" }],
    /role draft in spec\.modelRefs needs spec\.mode chat/,
    { "spec.mode": "embedding" },
  ],
  [
    "adapters in both fields",
    [main, { name: "a", role: "lora" }],
    /only one of spec\.loraAdapters and role lora/,
    { "spec.loraAdapters": [{ modelRef: "b" }] },
  ],
];

test.concurrent.for(roles)("modelRefs are refused: %s", async ([, modelRefs, says, further]) => {
  const fields = { "spec.modelRef": undefined, "spec.modelRefs": modelRefs, ...further };
  const bad = withFields(manifest("InferenceService", "refused", "default"), fields);
  await expect(sharedCluster().objects.create(bad, { dryRun: true })).rejects.toThrow(says);
});
