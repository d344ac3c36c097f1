import { expect, test } from "vitest";
import { KubectlFailed } from "../bed/kubectl.ts";
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
  await until(
    async () => {
      await expect(cluster.kubectl(["get", "namespace", name])).rejects.toBeInstanceOf(KubectlFailed);
    },
    { everyMs: 250 },
  );
});

test("a private cluster loses and regains its API server, and keeps its data", async () => {
  const cluster = ownCluster();
  await cluster.kubectl(["create", "configmap", "kept", "--from-literal=a=b"]);

  await cluster.stopApiServer();
  await expect(cluster.kubectl(["get", "configmap", "kept"])).rejects.toThrow(/refused/);
  await cluster.startApiServer();
  expect(await cluster.kubectl(["get", "configmap", "kept", "-o", "jsonpath={.data.a}"])).toBe("b");

  const before = pidsNaming(cluster.dir, "--secure-port");
  cluster.killApiServer();
  // The order goes through a pipe: until it is carried out the old one answers, and fails in the next test.
  await until(() =>
    expect(pidsNaming(cluster.dir, "--secure-port").filter((pid) => before.includes(pid))).toEqual([]),
  );
  await until(
    async () => {
      expect(await cluster.kubectl(["get", "configmap", "kept", "-o", "jsonpath={.data.a}"])).toBe("b");
    },
    { everyMs: 250 },
  );
});

test("a watch from before a compaction gets 410 Gone", async () => {
  const cluster = ownCluster();
  await cluster.kubectl(["create", "configmap", "first"]);
  const version = await cluster.kubectl([
    "get",
    "configmap",
    "first",
    "-o",
    "jsonpath={.metadata.resourceVersion}",
  ]);
  await cluster.kubectl(["create", "configmap", "second"]);
  await cluster.compact();
  // The API server answers old versions from its cache; a restarted one has none.
  await cluster.stopApiServer();
  await cluster.startApiServer();
  const path = `/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=2&resourceVersion=${version}`;
  const answer = await cluster.kubectl(["get", "--raw", path]).catch((error: KubectlFailed) => error.stderr);
  expect(answer).toMatch(/410|too old|Expired/);
});
