/** What clients read about a model in `GET /v1/models`. */
import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { renderModels } from "./models.ts";
import { servedModel } from "./served-model.ts";

test.each([
  [
    "its service, if its Model states neither",
    undefined,
    { owned_by: "apps", created: 1_767_225_600, created_at: "2026-01-01T00:00:00Z" },
  ],
  [
    "its Model",
    { name: "m", ownedBy: "Meta, Inc.", createdAt: "2024-07-23T02:00:00+02:00" },
    { owned_by: "Meta, Inc.", created: 1_721_692_800, created_at: "2024-07-23T02:00:00+02:00" },
  ],
  [
    "its Model, as far as that states them",
    { name: "m", ownedBy: "meta" },
    { owned_by: "meta", created_at: "2026-01-01T00:00:00Z" },
  ],
])("owner and creation time of a listed model are those of %s", (_, model, expected) => {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "apps", creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: { modelRef: "m" },
    status: { model },
  });
  const listed = { name: "chat", aliases: [], model: servedModel(service, []) };
  expect(renderModels([listed])).toMatchObject({ data: [{ id: "chat", ...expected }] });
});

test.each([
  ["sealed", ["ab".repeat(32), "cd".repeat(32)], "kept"],
  ["partly sealed", ["ab".repeat(32), undefined], "single"],
  ["direct", [undefined], "single"],
] as const)(
  "a %s service of an engine that is not known keeps connections only behind gates",
  (_, hosts, expected) => {
    const service = inferenceServiceSchema.parse({
      metadata: { name: "chat", namespace: "apps" },
      spec: { modelRef: "m", runtime: "generic" },
    });
    const slices = hosts.map((fingerprint, index) => ({
      metadata: {
        name: `s${index}`,
        annotations: { "metalbridge.dev/fingerprints": fingerprint } as Record<string, string>,
      },
      addressType: "IPv4" as const,
      // Not ready: a change of readiness must not change the cluster of Envoy.
      endpoints: [{ addresses: ["192.0.2.1"], conditions: { ready: false } }],
      ports: [{ port: 1 }],
    }));
    expect(servedModel(service, slices)).toMatchObject({
      connections: expected,
      endpoints: [],
      fingerprints: hosts.filter((one) => one !== undefined),
    });
  },
);

test("slots and context count arguments that set them", () => {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "apps" },
    spec: { modelRef: "m", extraArgs: ["-np", "8", "-c", "32768"] },
    status: { runtime: "llamacpp" },
  });
  expect(servedModel(service, [])).toMatchObject({ slots: 8, contextLength: 4096 });
});
