/** Model names of a service: what the real API server accepts and refuses. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";

/** Result of a dry run with these entries of spec.endpoint.modelNames. */
function create(modelNames: readonly object[]): Promise<unknown> {
  const service = withFields(manifest("InferenceService", "named", "default"), {
    "spec.endpoint": { modelNames },
  });
  return sharedCluster().objects.create(service, { dryRun: true });
}

test("model names of all forms are accepted, with and without weights", async () => {
  const names = ["gpt-4o", "openai/gpt-oss-20b", "llama3.2:1b-instruct-q4_K_M@sha256", "x".repeat(253)];
  await create(names.map((name) => ({ name })));
  await create([
    { name: "stable", weight: 1_000 },
    { name: "canary", weight: 0 },
  ]);
});

test("model names that no client can send, duplicates and bad weights are refused", async () => {
  const bad: [entries: readonly object[], says: RegExp][] = [
    ...["", "gpt 4", "-gpt", "gpt\u0007", "gpt\n", "modèle", "x".repeat(254)].map(
      (name): [readonly object[], RegExp] => [[{ name }], /spec\.endpoint\.modelNames\[0\]\.name/],
    ),
    [[{ weight: 1 }], /modelNames\[0\]\.name: Required/],
    [[{ name: "gpt" }, { name: "gpt", weight: 1 }], /modelNames\[1\]: Duplicate value/],
    [[{ name: "gpt", weight: -1 }], /modelNames\[0\]\.weight/],
    [[{ name: "gpt", weight: 1_001 }], /modelNames\[0\]\.weight/],
    [Array.from({ length: 17 }, (_, index) => ({ name: `m${index}` })), /modelNames: Too many/],
  ];
  await Promise.all(bad.map(([entries, says]) => expect(create(entries)).rejects.toThrow(says)));
});
