/** What a host may write is small enough that a thousand of them cannot fill the database of a cluster. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { hostStatusSchema, PREFETCH_BYTES_MAX } from "../host.ts";
import { inferenceReplicaStatusSchema } from "../inference-replica.ts";
import { inferenceServiceSpecSchema } from "../inference-service/spec.ts";
import { modelSchema } from "../model.ts";
import { createTrimmer } from "./fit.ts";
import { largestBytes } from "./largest.ts";
import { type StructuralSchema, toStructuralSchema } from "./structural.ts";

/** The quota of etcd where none is set. */
const DATABASE_BYTES = 2 * 1024 ** 3;
const HOSTS = 1_000;
/** Only the controller makes them, one for each engine. */
const REPLICAS_PER_HOST = 4;
/** metadata and the skeleton of the slice, its address, port and managedFields; the policies hold it. */
const LEASE_AND_SLICES_BYTES = (1 + REPLICAS_PER_HOST) * 32 * 1024;

/** What etcd takes by default. */
const OBJECT_BYTES = 1.5 * 1024 ** 2;

const hostStatus = toStructuralSchema(hostStatusSchema);
const replicaStatus = toStructuralSchema(inferenceReplicaStatusSchema);

test("every text and list that a host writes has a limit, and their sum is small", () => {
  const perHost =
    largestBytes(withoutWanted(hostStatus)) +
    REPLICAS_PER_HOST * largestBytes(replicaStatus) +
    LEASE_AND_SLICES_BYTES;
  expect(largestBytes(withoutWanted(hostStatus)) / 1024).toBeLessThan(1_160);
  expect(largestBytes(replicaStatus) / 1024).toBeLessThan(176);
  expect(perHost * HOSTS).toBeLessThan(DATABASE_BYTES);
});

test("what the controller writes for Models with spec.prefetch fits into a Host beside it", () => {
  const metadata = 64 * 1024;
  expect(largestBytes(withoutWanted(hostStatus)) + PREFETCH_BYTES_MAX + metadata).toBeLessThan(OBJECT_BYTES);
});

/** Kubernetes types, which it checks in pods; they have no schema here, so the API server's limit for an object holds. */
const OF_KUBERNETES = [
  ...["env", "affinity", "topologySpreadConstraints", "podSecurityContext", "securityContext"],
  ...["extraVolumes", "lifecycle", "extraVolumeMounts", "autoscaling.behavior"],
  ...["pods", "resource", "containerResource", "object", "external"].map(
    (type) => `autoscaling.metrics.${type}`,
  ),
  ...["probeOverrides.startup", "probeOverrides.liveness", "probeOverrides.readiness"],
];

test("every text, list and map of a Model and of an InferenceService has a limit, but for Kubernetes types", () => {
  const model = toStructuralSchema(modelSchema).properties?.spec ?? {};
  const service = toStructuralSchema(inferenceServiceSpecSchema);
  expect(openFields(model)).toEqual([]);
  expect(openFields(service).sort()).toEqual([...OF_KUBERNETES].sort());
  expect(largestBytes(model) / 1024).toBeLessThan(1_060);
  expect(largestBytes(closed(service)) / 1024).toBeLessThan(2_304);
  // Of plain text, which takes a byte for each character.
  expect(largestBytes(model, 1) / 1024).toBeLessThan(360);
  expect(largestBytes(closed(service), 1) / 1024).toBeLessThan(560);
});

test("a schema without a limit is seen", () => {
  expect(largestBytes({ type: "object", properties: { text: { type: "string" } } })).toBe(
    Number.POSITIVE_INFINITY,
  );
  expect(largestBytes({ type: "array", items: { type: "boolean" } })).toBe(Number.POSITIVE_INFINITY);
  const map = { type: "object", additionalProperties: { type: "string", maxLength: 63 } };
  expect(largestBytes(map)).toBe(Number.POSITIVE_INFINITY);
  expect(largestBytes({ ...map, maxProperties: 64 })).toBe(Number.POSITIVE_INFINITY);
});

test("whatever is reported, it fits", () => {
  const fitStatus = createTrimmer(inferenceReplicaStatusSchema);
  const text = fc.string({ maxLength: 6_000, unit: "binary" });
  const status = fc.record({
    message: text,
    lastExit: fc.record({ logTail: text, signal: text }),
    transitions: fc.array(
      fc.record({
        at: fc.constant("2026-01-01T00:00:00Z"),
        phase: fc.constant("Ready" as const),
        reason: text,
        message: text,
      }),
      { maxLength: 14 },
    ),
  });
  fc.assert(
    fc.property(status, (reported) => {
      expect(inferenceReplicaStatusSchema.safeParse(fitStatus(reported)).error).toBeUndefined();
    }),
    { numRuns: 50 },
  );
});

/** Fields whose content has no schema. */
function openFields({ properties = {} }: StructuralSchema, path = ""): string[] {
  return Object.entries(properties).flatMap(([name, inner]) => {
    const open = inner.items ?? inner;
    if (open["x-kubernetes-preserve-unknown-fields"] === true) return [`${path}${name}`];
    return openFields(open, `${path}${name}.`);
  });
}

function closed(schema: StructuralSchema): StructuralSchema {
  if (schema.properties === undefined) return schema;
  const entries = Object.entries(schema.properties).filter(
    ([, { items, ...inner }]) => (items ?? inner)["x-kubernetes-preserve-unknown-fields"] !== true,
  );
  const properties = entries.map(([name, { items, ...inner }]) => [
    name,
    items === undefined ? closed(inner) : { ...inner, items: closed(items) },
  ]);
  return { ...schema, properties: Object.fromEntries(properties) };
}

/** The controller's, which a policy keeps from hosts. */
function withoutWanted(schema: StructuralSchema): StructuralSchema {
  const { prefetch, benchmark, ...others } = schema.properties ?? {};
  const { wanted: _, ...own } = prefetch?.properties ?? {};
  const { order: __, ...state } = benchmark?.properties ?? {};
  return {
    ...schema,
    properties: {
      ...others,
      prefetch: { ...prefetch, properties: own },
      benchmark: { ...benchmark, properties: state },
    },
  };
}
