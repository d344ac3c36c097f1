import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { CONFIG_MAPS, CONTROLLER_REVISIONS, ENDPOINT_SLICES, NAMESPACES, SERVICES } from "../kinds.ts";
import type { ConfigMap, EndpointSlice, Service } from "../objects.ts";
import type { ApiResult, Kind, KubeObject } from "../types.ts";
import { connect } from "./connect.ts";
import { createClient } from "./create-client.ts";

const WIDGETS: Kind<KubeObject> = {
  group: "example.com",
  version: "v1",
  plural: "widgets",
  kind: "Widget",
  namespaced: true,
};

async function open() {
  const cluster = sharedCluster();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  return { cluster, client: createClient(connection), [Symbol.dispose]: () => connection.close() };
}

function value<T>(result: ApiResult<T>): T {
  if (!result.ok) throw new Error(`${result.error.kind} ${result.error.reason}: ${result.error.message}`);
  return result.value;
}

function failure(result: ApiResult<unknown>): string {
  return result.ok ? "ok" : `${result.error.status} ${result.error.kind}`;
}

function configMap(namespace: string, name: string, data: Record<string, string>): ConfigMap {
  return { metadata: { namespace, name }, data };
}

describe("results of the real API server", () => {
  it("creates, reads, updates, patches and removes, with preconditions", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const ref = { namespace: namespace.name, name: "a" };
    const created = value(await client.create(CONFIG_MAPS, configMap(namespace.name, "a", { x: "1" })));
    expect(created).toMatchObject({ apiVersion: "v1", kind: "ConfigMap", data: { x: "1" } });
    const updated = value(await client.update(CONFIG_MAPS, { ...created, data: { x: "2" } }));
    expect(failure(await client.update(CONFIG_MAPS, { ...created, data: { x: "3" } }))).toBe("409 conflict");
    const test = (resourceVersion: string | undefined) => [
      { op: "test" as const, path: "/metadata/resourceVersion", value: resourceVersion },
      { op: "replace" as const, path: "/data/x", value: "4" },
    ];
    expect(failure(await client.jsonPatch(CONFIG_MAPS, ref, test(created.metadata.resourceVersion)))).toBe(
      "422 conflict",
    );
    value(await client.jsonPatch(CONFIG_MAPS, ref, test(updated.metadata.resourceVersion)));
    expect(value(await client.get(CONFIG_MAPS, ref)).data).toEqual({ x: "4" });
    expect(
      failure(await client.remove(CONFIG_MAPS, ref, { uid: "00000000-0000-0000-0000-000000000000" })),
    ).toBe("409 conflict");
    value(await client.remove(CONFIG_MAPS, ref, { uid: created.metadata.uid ?? "" }));
    expect(failure(await client.get(CONFIG_MAPS, ref))).toBe("404 notFound");
    expect(failure(await client.remove(CONFIG_MAPS, ref))).toBe("404 notFound");
  });

  it("patches an object whose immutable data holds characters that Go escapes", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const metadata = { namespace: namespace.name, name: "a" };
    const data = { command: "a < b && c > d", separators: "\u2028\u2029" };
    value(await client.create(CONTROLLER_REVISIONS, { metadata, revision: 1, data }));
    const operations = [{ op: "replace" as const, path: "/revision", value: 2 }];
    value(await client.jsonPatch(CONTROLLER_REVISIONS, metadata, operations));
    expect(value(await client.get(CONTROLLER_REVISIONS, metadata))).toMatchObject({ revision: 2, data });
  });

  it("distinguishes a missing object from a kind that is not installed", async () => {
    using opened = await open();
    const { client } = opened;
    const notThere = await client.get(CONFIG_MAPS, { namespace: "default", name: "absent" });
    const noGroup = await client.get(WIDGETS, { namespace: "default", name: "absent" });
    const noKind = await client.get({ ...WIDGETS, group: "apps" }, { namespace: "default", name: "absent" });
    const noKindList = await client.list({ ...WIDGETS, group: "" });
    const noNamespace = await client.create(CONFIG_MAPS, configMap("nowhere", "a", {}));
    expect(notThere).toMatchObject({ error: { kind: "notFound", reason: "NotFound" } });
    for (const result of [noGroup, noKind, noKindList]) {
      expect(result).toMatchObject({
        error: { kind: "unavailable", reason: "KindNotInstalled", status: 404 },
      });
    }
    expect(noNamespace).toMatchObject({ error: { kind: "notFound" } });
  });

  it("says alreadyExists, invalid and forbidden with the server's sentence", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    value(await client.create(CONFIG_MAPS, configMap(namespace.name, "a", {})));
    expect(failure(await client.create(CONFIG_MAPS, configMap(namespace.name, "a", {})))).toBe(
      "409 alreadyExists",
    );
    expect(await client.create(CONFIG_MAPS, configMap(namespace.name, "No Name", {}))).toMatchObject({
      error: { kind: "invalid", status: 422, message: expect.stringContaining("metadata.name") },
    });
    const withoutVersion = configMap(namespace.name, "a", { x: "1" });
    expect(await client.update(CONFIG_MAPS, withoutVersion)).toMatchObject({ error: { kind: "invalid" } });
    const wrongType = { metadata: { namespace: namespace.name, name: "b" }, data: 5 } as unknown as ConfigMap;
    expect(failure(await client.create(CONFIG_MAPS, wrongType))).toBe("400 invalid");
  });

  it("lists page by page with apiVersion and kind on every item", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const names = Array.from({ length: 12 }, (_, index) => `item-${String(index).padStart(2, "0")}`);
    await Promise.all(
      names.map((name) => client.create(CONFIG_MAPS, configMap(namespace.name, name, { name }))),
    );
    const { listPages } = await import("./list-pages.ts");
    const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
    const call = { namespace: namespace.name, timeoutMs: 30_000, pageSize: 5 };
    const listed = value(await listPages(connection, CONFIG_MAPS, call));
    connection.close();
    expect(listed.items.map((item) => item.metadata.name).sort()).toEqual(expect.arrayContaining(names));
    expect(listed.items.every((item) => item.kind === "ConfigMap" && item.apiVersion === "v1")).toBe(true);
    expect(Number(listed.resourceVersion)).toBeGreaterThan(0);
    expect(value(await client.list(NAMESPACES)).items.length).toBeGreaterThan(2);
  });

  it("lists objects so large that a page of the usual size is refused, in smaller pages", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const names = Array.from({ length: 40 }, (_, index) => `large-${index}`);
    const text = "x".repeat(10_000);
    await Promise.all(
      names.map((name) => client.create(CONFIG_MAPS, configMap(namespace.name, name, { text }))),
    );
    const { listPages } = await import("./list-pages.ts");
    const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
    const call = { namespace: namespace.name, timeoutMs: 30_000 };
    const listed = await listPages(connection, CONFIG_MAPS, { ...call, maxPageBytes: 150_000 });
    expect(value(listed).items.map((item) => item.metadata.name)).toEqual(expect.arrayContaining(names));
    const refused = await listPages(connection, CONFIG_MAPS, { ...call, maxPageBytes: 50_000 });
    connection.close();
    expect(refused).toMatchObject({ ok: false, error: { reason: "ResponseTooLong" } });
  });
});

describe("server-side apply", () => {
  it("sends nothing when nothing differs, for a Service whose fields the server fills in", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const service: Service = {
      metadata: { namespace: namespace.name, name: "chat", labels: { app: "x" } },
      spec: { selector: { app: "x" }, ports: [{ name: "http", port: 8080, targetPort: 8080 }] },
    };
    const first = value(await client.apply(SERVICES, service, { manager: "m" }));
    expect(first.sent).toBe(true);
    const again = value(await client.apply(SERVICES, service, { manager: "m", current: first.object }));
    expect(again.sent).toBe(false);
    const metadata = { namespace: namespace.name, name: "chat" };
    const less = value(
      await client.apply(SERVICES, { ...service, metadata }, { manager: "m", current: first.object }),
    );
    expect(less.sent).toBe(true);
    expect(less.object.metadata.labels).toBeUndefined();
    const other = value(
      await client.apply(SERVICES, { ...service, metadata }, { manager: "n", current: less.object }),
    );
    expect(other.sent).toBe(true);
  });

  it("sends nothing when nothing differs, for an EndpointSlice", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const slice: EndpointSlice = {
      metadata: { namespace: namespace.name, name: "chat", labels: { "kubernetes.io/service-name": "chat" } },
      addressType: "IPv4",
      endpoints: [
        { addresses: ["10.1.2.3"], conditions: { ready: true, serving: true, terminating: false } },
      ],
      ports: [{ name: "http", port: 21000, protocol: "TCP" }],
    };
    const first = value(await client.apply(ENDPOINT_SLICES, slice, { manager: "m" }));
    const again = value(await client.apply(ENDPOINT_SLICES, slice, { manager: "m", current: first.object }));
    expect(again.sent).toBe(false);
    const withdrawn = {
      ...slice,
      endpoints: [
        { addresses: ["10.1.2.3"], conditions: { ready: false, serving: false, terminating: true } },
      ],
    };
    const second = value(
      await client.apply(ENDPOINT_SLICES, withdrawn, { manager: "m", current: first.object }),
    );
    expect(second.sent).toBe(true);
    const empty = { ...slice, endpoints: [] };
    const third = value(await client.apply(ENDPOINT_SLICES, empty, { manager: "m", current: second.object }));
    const fourth = value(await client.apply(ENDPOINT_SLICES, empty, { manager: "m", current: third.object }));
    expect([third.sent, fourth.sent]).toEqual([true, false]);
  });

  it("never creates a deleted object again", async () => {
    using opened = await open();
    const { client, cluster } = opened;
    await using namespace = await cluster.namespace();
    const wanted = configMap(namespace.name, `gone-${randomBytes(3).toString("hex")}`, { x: "1" });
    const { object } = value(await client.apply(CONFIG_MAPS, wanted, { manager: "m" }));
    const ref = { namespace: namespace.name, name: wanted.metadata.name };
    value(await client.remove(CONFIG_MAPS, ref));
    const changed = { ...wanted, data: { x: "2" } };
    expect(failure(await client.apply(CONFIG_MAPS, changed, { manager: "m", current: object }))).toBe(
      "409 notFound",
    );
    value(await client.create(CONFIG_MAPS, wanted));
    const onOther = await client.apply(CONFIG_MAPS, changed, { manager: "m", current: object });
    expect(onOther).toMatchObject({ error: { kind: "conflict", message: expect.stringContaining("uid") } });
  });
});
