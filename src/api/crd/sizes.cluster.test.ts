/** Lists and maps of any entries: the real API server takes as much as their limit, and no character more. */
import { expect, test } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { manifest, withFields } from "../../../test/fixtures/manifests.ts";
import { ANNOTATION_LIMITS, LABEL_LIMITS } from "../fields/kubernetes.ts";

type Kind = "InferenceService" | "Model";

async function isAccepted(kind: Kind, fields: Record<string, unknown>): Promise<true | string> {
  const object = withFields(manifest(kind, "sized", "default"), fields);
  return sharedCluster()
    .objects.create(object, { dryRun: true })
    .then(() => true as const, String);
}

/** As many entries, of so many characters together. */
function mapOf(entries: number, length: number): Record<string, string> {
  const keys = Array.from({ length: entries }, (_, index) => `k${index}.example.com/${"n".repeat(60)}`);
  let left = length - keys.join("").length;
  return Object.fromEntries(
    keys.map((key) => {
      const value = "v".repeat(Math.max(0, Math.min(left, length > 10_000 ? 2_000 : 63)));
      left -= value.length;
      return [key, value];
    }),
  );
}

const maps: readonly (readonly [Kind, string, number])[] = [
  ["InferenceService", "spec.nodeSelector", LABEL_LIMITS.totalLength],
  ["InferenceService", "spec.podLabels", LABEL_LIMITS.totalLength],
  ["InferenceService", "spec.placement.hostSelector.matchLabels", LABEL_LIMITS.totalLength],
  ["Model", "spec.prefetchHosts.selector.matchLabels", LABEL_LIMITS.totalLength],
  ["InferenceService", "spec.podAnnotations", ANNOTATION_LIMITS.totalLength],
];

test.concurrent.for(maps)("%s %s has 64 entries and a total length", async ([kind, field, length]) => {
  expect(await isAccepted(kind, { [field]: mapOf(64, length) })).toBe(true);
  expect(await isAccepted(kind, { [field]: mapOf(64, length + 1) })).toContain(
    `at most ${length} characters together`,
  );
  expect(await isAccepted(kind, { [field]: mapOf(65, 65 * 80) })).toMatch(
    /must have at most 64 (items|properties)/,
  );
});

const lists: readonly (readonly [Kind, string, number, Record<string, unknown>])[] = [
  ["InferenceService", "spec.command", 32_768, { "spec.runtime": "generic", "spec.image": "engine:1" }],
  ["InferenceService", "spec.args", 32_768, {}],
  ["InferenceService", "spec.extraArgs", 32_768, {}],
  ["InferenceService", "spec.metadataOverrides", 16_384, {}],
  ["InferenceService", "spec.tensorOverrides", 16_384, {}],
  ["Model", "spec.files", 32_768, {}],
];

test.concurrent.for(lists)("%s %s has a total length", async ([kind, field, length, others]) => {
  const texts = (beyond: number) => [
    ...Array.from({ length: length / 512 - 1 }, () => "x".repeat(512)),
    ...["x".repeat(511), "x".repeat(1 + beyond)],
  ];
  expect(await isAccepted(kind, { ...others, [field]: texts(0) })).toBe(true);
  expect(await isAccepted(kind, { ...others, [field]: texts(1) })).toContain(
    `at most ${length} characters together`,
  );
});
