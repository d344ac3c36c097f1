import { expect, test } from "vitest";
import { pidsNaming } from "../bed/leftovers.ts";
import { until } from "../bed/until.ts";
import { oneCluster, sharedCluster } from "./cluster.ts";

const ownCluster = oneCluster({ crds: false });

test("the shared cluster answers, and namespaces are the test's own", async () => {
  const cluster = sharedCluster();
  let name: string;
  {
    await using namespace = await cluster.namespace();
    name = namespace.name;
    expect(await cluster.kubectl(["get", "namespace", name, "-o", "name"])).toBe(`namespace/${name}\n`);
  }
  await cluster.objects.until("", `namespace/${name}`, (found) => expect(found).toBeUndefined());
});

test("a private cluster loses and regains its API server, and keeps its data", async () => {
  const cluster = ownCluster();
  const { objects } = cluster;
  await objects.apply(configMap("kept"));

  await cluster.stopApiServer();
  await expect(cluster.kubectl(["get", "configmap", "kept"])).rejects.toThrow(/refused/);
  await cluster.startApiServer();
  expect(await objects.get("default", "configmap/kept")).toMatchObject({ data: { a: "b" } });

  const before = pidsNaming(cluster.dir, "--secure-port");
  cluster.killApiServer();
  // The order goes through a pipe: until it is carried out the old one answers, and fails in the next test.
  await until(() =>
    expect(pidsNaming(cluster.dir, "--secure-port").filter((pid) => before.includes(pid))).toEqual([]),
  );
  await objects.until("default", "configmap/kept", (found) => expect(found?.data).toEqual({ a: "b" }));
});

test("a watch from before a compaction gets 410 Gone", async () => {
  const cluster = ownCluster();
  const { objects } = cluster;
  const { metadata } = await objects.create(configMap("first"));
  await objects.create(configMap("second"));
  await cluster.compact();
  // The API server answers old versions from its cache; a restarted one has none.
  await cluster.stopApiServer();
  await cluster.startApiServer();
  const path = `/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=2&resourceVersion=${metadata.resourceVersion}`;
  const answer = await objects.raw(path).catch(({ message }: Error) => message);
  expect(answer).toMatch(/410|too old|Expired/);
});

function configMap(name: string): object {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "default" }, data: { a: "b" } };
}
