import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HOSTS, MODELS } from "../../src/api/kinds.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { createInspectSource, createMarkSource } from "../../src/hub/inspect/inspect.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { createQueue, type Queue } from "../../src/kube/queue.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { headerBytes, ranged, serveModel, TENSOR_BYTES } from "../../test/fixtures/model-server.ts";
import { type Origin, startOrigin } from "../../test/fixtures/origin.ts";
import { startDownloads } from "./cache/watches.ts";
import { inspectSettings, modelConfigSchema } from "./config.ts";
import { createModelReconciler } from "./reconcile.ts";

const cluster = sharedCluster();
const WAIT = { timeout: 60_000, interval: 50 };
const stop = new AbortController();
const events: string[] = [];
/** The times after which Models are passed again, of the last pass of each. */
const rechecks = new Map<string, number | undefined>();
let connection: KubeConnection;
let client: KubeClient;
let hub: Origin;
let ns: Awaited<ReturnType<typeof cluster.namespace>>;

beforeAll(async () => {
  ns = await cluster.namespace();
  connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  client = createClient(connection);
  const common = { connection, clock: systemClock, log: quietLog, signal: stop.signal, startReflector };
  const queues: Queue<string>[] = [];
  const models = startReflector<Model>({
    ...common,
    kind: MODELS,
    namespace: ns.name,
    onChange: (key) => queues[0]?.enqueue(key),
  });
  const hosts = startReflector({ ...common, kind: HOSTS, onChange: () => undefined });
  await Promise.all([models.whenSynced(), hosts.whenSynced()]);
  hub = await startOrigin();
  const hfEndpoint = hub.url;
  const settings = modelConfigSchema.parse({
    allowLoopback: true,
    stallMs: 10_000,
    hfEndpoint,
    sourceCheckSeconds: 1,
  });
  const inspect = createInspectSource(inspectSettings(settings));
  const hostsOnly = false;
  const downloads = startDownloads({ ...common, hostsOnly, onModel: (key) => queues[0]?.enqueue(key) });
  await Promise.all(downloads.watches.map(({ whenSynced }) => whenSynced()));
  const record = (_: unknown, event: { reason: string }) => void events.push(event.reason);
  const reconcile = createModelReconciler({
    client,
    models,
    hosts,
    servicesOf: () => [],
    downloads,
    settings: { ...settings, hostsOnly },
    inspect,
    mark: createMarkSource(inspectSettings(settings)),
    record,
    clock: systemClock,
    log: quietLog,
  });
  const noting = async (key: string, signal: AbortSignal) => {
    const next = await reconcile(key, signal);
    rechecks.set(key, next?.recheckAfterMs);
    return next;
  };
  queues.push(createQueue({ ...common, reconcile: noting }));
});

afterAll(async () => {
  stop.abort();
  connection?.close();
  await ns?.[Symbol.asyncDispose]();
  await hub?.[Symbol.asyncDispose]();
});

async function apply(name: string, spec: object): Promise<void> {
  const object = {
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name, namespace: ns.name },
    spec: { hardware: { accelerator: "metal" }, ...spec },
  };
  await cluster.objects.apply(object);
}

function statusUntil(name: string, check: (status: ModelStatus | undefined) => void): Promise<Model> {
  return cluster.objects.until(ns.name, `model/${name}`, (model: Model): Model => {
    check(model.status);
    return model;
  });
}

test("a remote model is Ready with the facts of its header, and is not written again", async () => {
  const header = headerBytes(10);
  const server = await serveModel(ranged(header, header.length + TENSOR_BYTES));
  await apply("good", { source: `${server.url}/good.gguf` });
  const ready = await statusUntil("good", (status) =>
    expect(status).toMatchObject({
      phase: "Ready",
      reason: "SourceResolved",
      observedGeneration: 1,
      sizeBytes: header.length + TENSOR_BYTES,
      weightsBytes: TENSOR_BYTES,
      files: ["good.gguf"],
      gguf: { architecture: "llama", quantization: "Q8_0", layerCount: 2 },
    }),
  );
  const conditions = ready.status?.conditions?.map(({ type, status }) => `${type}=${status}`);
  expect(conditions).toEqual([
    "Available=True",
    "Degraded=False",
    "Progressing=False",
    "Ready=True",
    "SpecHonored=True",
  ]);
  await cluster.objects.patch(ns.name, "model/good", { metadata: { annotations: { touched: "1" } } });
  await apply("after", { source: "file:///models/after.gguf" });
  await statusUntil("after", (status) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "ReadByHost" }),
  );
  const again = await client.get(MODELS, { name: "good", namespace: ns.name });
  expect(again).toMatchObject({ ok: true, value: { status: ready.status } });
  expect(server.requests).toHaveLength(1);
  expect(events).toContain("SourceResolved");
});

test("a bad source fails the Model, and an edited one is inspected at once", async () => {
  const header = headerBytes(10);
  const server = await serveModel((request, response) => {
    if (request.url === "/good.gguf") ranged(header, header.length + TENSOR_BYTES)(request, response);
    else response.writeHead(404).end();
  });
  await apply("bad", { source: `${server.url}/missing.gguf` });
  await statusUntil("bad", (status) =>
    expect(status).toMatchObject({ phase: "Failed", reason: "SourceNotFound" }),
  );
  await apply("bad", { source: `${server.url}/good.gguf` });
  await statusUntil("bad", (status) =>
    expect(status).toMatchObject({ phase: "Ready", observedGeneration: 2 }),
  );
});

test("a transient failure leaves the Model Pending, and it is retried", async () => {
  const header = headerBytes(10);
  let isUp = false;
  const server = await serveModel((request, response) => {
    if (isUp) ranged(header, header.length + TENSOR_BYTES)(request, response);
    else response.writeHead(503, { "retry-after": "1" }).end();
  });
  await apply("passing", { source: `${server.url}/m.gguf` });
  await statusUntil("passing", (status) =>
    expect(status).toMatchObject({ phase: "Pending", reason: "SourceUnavailable" }),
  );
  isUp = true;
  await statusUntil("passing", (status) => expect(status?.phase).toBe("Ready"));
});

test("the token of the named Secret is sent, and a missing Secret is named", async () => {
  const header = headerBytes(10);
  const server = await serveModel((request, response) => {
    if (request.headers.authorization === "Bearer t0ken")
      ranged(header, header.length + TENSOR_BYTES)(request, response);
    else response.writeHead(401).end();
  });
  const source = `${server.url}/m.gguf`;
  await apply("open", { source });
  await statusUntil("open", (status) =>
    expect(status).toMatchObject({ phase: "Failed", reason: "SourceUnauthorized" }),
  );
  await apply("unnamed", { source, sourceSecretRef: { name: "none" } });
  await statusUntil("unnamed", (status) =>
    expect(status).toMatchObject({
      reason: "SourceSecretInvalid",
      message: expect.stringContaining(
        `kubectl create secret generic none -n ${ns.name} --from-literal=HF_TOKEN=…`,
      ),
    }),
  );
  const metadata = { name: "hub", namespace: ns.name };
  const stringData = { HF_TOKEN: "t0ken" };
  await cluster.objects.create({ apiVersion: "v1", kind: "Secret", metadata, stringData });
  await apply("closed", { source, sourceSecretRef: { name: "hub" } });
  await statusUntil("closed", (status) => expect(status?.phase).toBe("Ready"));
});

test("a Model for pods waits for the controller's own image, and the controller asks nothing of its source", async () => {
  const server = await serveModel((_, response) => void response.end());
  await apply("linux", { source: `${server.url}/m.gguf`, hardware: { accelerator: "cuda" } });
  await statusUntil("linux", (status) =>
    expect(status).toMatchObject({
      phase: "Pending",
      reason: "ModelCacheNotConfigured",
      cache: { claimName: "linux-model-cache", folder: expect.stringMatching(/^[0-9a-f]{16}$/) },
    }),
  );
  expect(server.requests).toHaveLength(0);
});

test("a watched repository keeps its commit while its files stay, unless that commit is deleted", async () => {
  const header = Buffer.alloc(headerBytes(10).length + TENSOR_BYTES);
  header.set(headerBytes(10));
  const serve = (commit: string, digit: string) => {
    const siblings = [{ rfilename: "m.gguf", lfs: { sha256: digit.repeat(64), size: header.length } }];
    const list = JSON.stringify({ sha: commit, siblings });
    for (const revision of ["main", commit])
      hub.on(`/api/models/org/kept/revision/${revision}`, (_, response) => void response.end(list));
    hub.serve(`/org/kept/resolve/${commit}/m.gguf`, header);
  };
  const [a, b, c] = ["a".repeat(40), "b".repeat(40), "c".repeat(40)] as const;
  const pinned = (revision: string) =>
    statusUntil("kept", (status) => expect(status?.pinned).toMatchObject({ revision }));
  serve(a, "1");
  await apply("kept", { source: "hf://org/kept", refreshPolicy: "OnChange" });
  const first = (await pinned(a)).status;
  // Another commit of the same files, seen by two checks.
  serve(b, "1");
  const asked = () => hub.seen.filter(({ path }) => path.endsWith(`/kept/revision/${a}`)).length;
  const before = asked();
  await vi.waitFor(() => expect(asked()).toBeGreaterThan(before + 1), WAIT);
  expect((await pinned(a)).status?.changedAt).toBe(first?.changedAt);
  hub.on(`/api/models/org/kept/revision/${a}`, (_, response) => void response.writeHead(404).end());
  expect((await pinned(b)).status?.pinned?.changeMarker).toBe(first?.pinned?.changeMarker);
  serve(c, "2");
  expect((await pinned(c)).status?.pinned?.changeMarker).not.toBe(first?.pinned?.changeMarker);
  await vi.waitFor(() => expect(events).toContain("SourceContentChanged"), WAIT);
  await cluster.objects.remove(ns.name, "model/kept");
});

test("the more Models wait for a Secret, the more seldom each of them reads it", async () => {
  const items = Array.from({ length: 45 }, (_, index) => ({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Model",
    metadata: { name: `waits-${index}`, namespace: ns.name, labels: { waits: "yes" } },
    spec: {
      source: "hf://org/waits/m.gguf",
      hardware: { accelerator: "metal" },
      sourceSecretRef: { name: "none" },
    },
  }));
  await cluster.objects.apply(...items);
  const times = () => items.map(({ metadata: { name } }) => rechecks.get(`${ns.name}/${name}`) ?? 0);
  await vi.waitFor(() => expect(Math.max(...times())).toBeGreaterThan(3_000), WAIT);
  await cluster.objects.startRemoval(ns.name, ...items.map(({ metadata }) => `model/${metadata.name}`));
});
