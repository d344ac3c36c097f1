/** A fresh agent and what it finds: many engines, one name twice, weights that a small quota would take. */
import { once } from "node:events";
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { silentLog, testClock } from "../store/fixtures/store.ts";
import { openStore } from "../store/store.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const ENGINES = 12;

it("adopts a dozen engines, each with its process and port", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const first = await bench.startAgent();
  const names = Array.from({ length: ENGINES }, (_, index) => `chat-${index}-t`);
  await Promise.all(names.map((name) => bench.createReplica(name)));
  const before = await Promise.all(names.map((name) => bench.untilPhase(name, "Ready")));
  await first.end();
  const startedAt = performance.now();
  const second = await bench.startAgent();
  const tookMs = Math.round(performance.now() - startedAt);
  const pids = before.map(({ status }) => status?.pid).sort();
  const adopted = second.runner.snapshot();
  expect(adopted.map(({ pid }) => pid).sort()).toEqual(pids);
  process.stdout.write(`${ENGINES} engines adopted in ${tookMs} ms, the agent's own start included\n`);
  expect(second.runner.claimedBytes()).toBe(adopted.reduce((sum, { claimBytes }) => sum + claimBytes, 0));
  await vi.waitFor(
    () => expect(second.runner.snapshot().map(({ phase }) => phase)).toEqual(names.map(() => "Ready")),
    { timeout: 60_000 },
  );
});

it("serves replicas of the same name in two namespaces, and removes one without the other", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using other = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const first = await bench.startAgent();
  const { spec } = await bench.createReplica("chat-0-n");
  const mine = await bench.untilPhase("chat-0-n", "Ready");
  const slice = await bench.slice("chat-0-n");
  const { finalizers } = mine.metadata;
  const twin = { name: "chat-0-n", namespace: other.name };
  const kind = { apiVersion: "metalbridge.dev/v1alpha1", kind: "InferenceReplica" };
  const labels = slice?.metadata.labels;
  const empty = { ...slice, metadata: { ...twin, labels }, endpoints: [], ports: [] };
  await bench.client.create(ENDPOINT_SLICES, empty as unknown as NonNullable<typeof slice>);
  await bench.client.create(INFERENCE_REPLICAS, {
    ...kind,
    metadata: { ...twin, finalizers },
    spec,
  } as InferenceReplica);
  const theirs = await bench.objects.until(other.name, "inferencereplicas/chat-0-n", (found) => {
    expect(found?.status?.phase).toBe("Ready");
    return found;
  });
  expect(theirs.status?.port).not.toBe(mine.status?.port);
  await first.end();
  const second = await bench.startAgent();
  expect(
    second.runner
      .snapshot()
      .map(({ pid }) => pid)
      .sort(),
  ).toEqual([mine.status?.pid, theirs.status?.pid].sort());
  await bench.objects.remove(other.name, "inferencereplicas/chat-0-n");
  expect((await bench.replica("chat-0-n"))?.status).toMatchObject({ phase: "Ready", pid: mine.status?.pid });
  expect((await bench.slice("chat-0-n"))?.endpoints).toMatchObject([{ conditions: { ready: true } }]);
});

it("holds the weights of an adopted engine first, so that no quota evicts them", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const weights = readFileSync(bench.modelPath);
  const server = createServer((_request, response) => {
    response.writeHead(200, { "content-length": weights.length, etag: '"1"' }).end(weights);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const source = `http://127.0.0.1:${port}/tiny.gguf`;
  const first = await bench.startAgent();
  await bench.createReplica("chat-0-q", (spec) =>
    Object.assign(spec.template.model, { source, refreshPolicy: "OnChange" }),
  );
  const before = await bench.untilPhase("chat-0-q", "Ready");
  await first.end();
  server.closeAllConnections();
  server.close();
  const dir = join(bench.place.root, "store");
  const store = await openStore({
    dir,
    clock: testClock,
    log: silentLog,
    allowedRoots: [],
    hfEndpoint: "http://127.0.0.1:9",
    reserveBytes: 0,
    quotaBytes: 1,
  });
  await bench.startAgent({ store });
  expect(await store.collect()).toEqual([]);
  expect(await store.list()).toMatchObject([{ source, inUse: true }]);
  const { sha256 = "" } = before.status?.model ?? {};
  expect(existsSync(realpathSync(join(dir, "blobs", "sha256", sha256)))).toBe(true);
  await bench.untilReplica("chat-0-q", (found) =>
    expect(found?.status).toMatchObject({
      phase: "Ready",
      pid: before.status?.pid,
      model: before.status?.model,
    }),
  );
});
