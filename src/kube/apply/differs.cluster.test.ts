import fc from "fast-check";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { connect, type KubeConnection } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import type { ApiResult, Kind, KubeClient, KubeObject } from "../types.ts";

interface Widget extends KubeObject {
  spec?: Record<string, unknown>;
  status?: Record<string, unknown>;
}

const WIDGETS: Kind<Widget> = {
  group: "differs.metalbridge.dev",
  version: "v1",
  plural: "widgets",
  kind: "Widget",
  namespaced: true,
};

const text = { type: "string" };
const entry = {
  type: "object",
  required: ["type"],
  properties: {
    type: text,
    status: text,
    count: { type: "integer" },
    size: { type: "string", default: "small" },
  },
};
const fields = {
  type: "object",
  properties: {
    word: text,
    number: { type: "number" },
    flag: { type: "boolean", default: false },
    byKey: {
      type: "array",
      items: entry,
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["type"],
    },
    set: { type: "array", items: text, "x-kubernetes-list-type": "set" },
    plain: { type: "array", items: { type: "object", properties: { a: text, b: text } } },
    labels: { type: "object", additionalProperties: text },
    whole: { type: "object", "x-kubernetes-map-type": "atomic", properties: { a: text, b: text } },
    nested: { type: "object", properties: { deep: { type: "object", properties: { a: text, b: text } } } },
  },
};
const crd = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.differs.metalbridge.dev" },
  spec: {
    group: "differs.metalbridge.dev",
    names: { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" },
    scope: "Namespaced",
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: { type: "object", properties: { spec: fields, status: fields } } },
      },
    ],
  },
};

const word = fc.constantFrom("a", "b", "c", 'ü "q"/~');
const pair = fc.record({ a: word, b: word }, { requiredKeys: [] });
const content = fc.record(
  {
    word,
    number: fc.constantFrom(0, 1, 2.5),
    flag: fc.boolean(),
    byKey: fc.uniqueArray(
      fc.record({ type: word, status: word, count: fc.nat(2) }, { requiredKeys: ["type"] }),
      { maxLength: 3, selector: ({ type }) => type },
    ),
    set: fc.uniqueArray(word, { maxLength: 3 }),
    plain: fc.array(pair, { maxLength: 2 }),
    labels: fc.dictionary(fc.constantFrom("x", "y.z/w", "~"), word, { maxKeys: 2 }),
    whole: pair,
    nested: fc.record({ deep: pair }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
);

function value<T>(result: ApiResult<T>): T {
  if (!result.ok) throw new Error(`${result.error.kind} ${result.error.reason}: ${result.error.message}`);
  return result.value;
}

describe("whether an apply would change anything, against what the API server really does", () => {
  let connection: KubeConnection;
  let client: KubeClient;

  beforeAll(async () => {
    const cluster = sharedCluster();
    await cluster.objects.apply(crd);
    connection = await connect({ kubeconfigPath: cluster.kubeconfig });
    client = createClient(connection);
    await vi.waitFor(async () => value(await client.list(WIDGETS)), { timeout: 60_000, interval: 50 });
    return async () => {
      connection.close();
      await cluster.objects.startRemoval("", "crd/widgets.differs.metalbridge.dev");
    };
  });

  for (const part of ["spec", "status"] as const) {
    it(`never holds back a change, and never repeats itself: ${part}`, async () => {
      await using namespace = await sharedCluster().namespace();
      const ref = { namespace: namespace.name, name: "w" };
      const subresource = part === "status" ? { subresource: "status" as const } : {};
      const widget = (body: Record<string, unknown>): Widget => ({ metadata: ref, [part]: body });
      const apply = async (manager: string, body: Record<string, unknown>, current?: Widget) =>
        value(await client.apply(WIDGETS, widget(body), { manager, current, ...subresource }));
      const held = { sent: 0, held: 0 };

      await fc.assert(
        fc.asyncProperty(content, content, content, async (mine, other, next) => {
          value(await client.create(WIDGETS, { metadata: ref }));
          try {
            await apply("mine", mine);
            const both = await apply("other", other);
            const step = await apply("mine", next, both.object);
            held[step.sent ? "sent" : "held"] += 1;
            const forced = await apply("mine", next);
            if (!step.sent) {
              expect(forced.object.metadata.resourceVersion).toBe(step.object.metadata.resourceVersion);
            }
            const again = await apply("mine", next, forced.object);
            expect({ again: again.sent }).toEqual({ again: false });
          } finally {
            await client.remove(WIDGETS, ref);
          }
        }),
        { numRuns: 60 },
      );
      expect(held.sent).toBeGreaterThan(0);
    });
  }

  it("stores any text as it is and sends it once, whatever YAML makes of its characters", async () => {
    await using namespace = await sharedCluster().namespace();
    const ref = { namespace: namespace.name, name: "w" };
    let current: Widget = value(await client.create(WIDGETS, { metadata: ref }));
    const store = async (text: string, key: string) => {
      const object = { metadata: ref, status: { word: text, labels: { [key]: text } } };
      const options = { manager: "mine", subresource: "status" as const };
      current = value(await client.apply(WIDGETS, object, { ...options, current })).object;
      const status = {
        flag: false,
        word: text.toWellFormed(),
        labels: { [key.toWellFormed()]: text.toWellFormed() },
      };
      expect(current.status).toEqual(status);
      expect(value(await client.get(WIDGETS, ref)).status).toEqual(status);
      const again = value(await client.apply(WIDGETS, object, { ...options, current }));
      expect({ text, again: again.sent }).toEqual({ text, again: false });
    };

    const awkward = [
      ..."\u0000\t\n\r\u001b \"\\'/:#-?&*!|>%@`\u2028\u2029\u00a0\u00ad\ufeff\u{1f600}\u{1fffe}a",
      "\ud83d",
      "\ude00",
    ];
    for (let unit = 0x7f; unit <= 0xa0; unit += 1) awkward.push(String.fromCharCode(unit));
    for (const special of [...awkward, "\ufffd", "\ufffe", "\uffff"])
      await store(`a ${special} b${special}`, `k${special}`);
    const unit = fc.oneof(
      fc.constantFrom(...awkward),
      fc.nat(0xffff).map((code) => String.fromCharCode(code)),
    );
    const text = fc.array(unit, { minLength: 1, maxLength: 40 }).map((units) => units.join(""));
    await fc.assert(fc.asyncProperty(text, text, store), { numRuns: 200 });
  });
});
