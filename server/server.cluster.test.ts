/** Tests every route with real tokens: the server has the permissions of the chart, on a real API server with simulated nodes. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import path from "node:path";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { A100S, aHost, catalogRecords } from "../fitness/density/fixtures/fleet.ts";
import { LABEL_NODE_REPORT, LABEL_SERVICE, LABEL_SERVICE_UID, MANAGER_AGENT } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { CONFIG_MAPS } from "../src/kube/kinds.ts";
import type { ConfigMap } from "../src/kube/objects.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { writeFileAtomic } from "../src/util/atomic-file.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { startKwok, whyNoSimulatedNodes } from "../test/bed/kwok.ts";
import { nodeCredential, startNodeDaemon } from "../test/bed/node-daemon.ts";
import { eventsOf } from "../test/bed/server-events.ts";
import { helmIn, helmProgram, render } from "../test/chart/helm.ts";
import { runVerb } from "../test/cli/program.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { renewLease } from "../test/controller/agent-side.ts";
import { manifest, withFields } from "../test/fixtures/manifests.ts";
import { parseServerConfig } from "./config.ts";
import { runServer } from "./main.ts";
import { createRestAuthorizer } from "./rest/authorize.ts";
import { routes } from "./rest/routes.ts";

const GIB = 1024 ** 3;
const SYSTEM = "metalbridge-system";
const SOURCE = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
const WAIT = { timeout: 60_000, interval: 50 };
/** The garbage collector of kube-controller-manager discovers new kinds every 30 s, and deletes nothing of them before. */
const COLLECTED = { timeout: 180_000, interval: 50 };
const why = helmProgram === undefined ? "needs helm: npm run setup -- --for test" : whyNoSimulatedNodes();
const cluster = oneCluster({ controllerManager: true });
const stack = new AsyncDisposableStack();
let url = "";
let health = "";
let client: KubeClient;
let connection: KubeConnection;
let nodes: Awaited<ReturnType<typeof startKwok>>;
let folder = "";

const apply = (...items: readonly object[]): Promise<void> => cluster().objects.apply(...items);

async function tokenOf(account: string): Promise<string> {
  await apply({
    apiVersion: "v1",
    kind: "ServiceAccount",
    metadata: { name: account, namespace: "default" },
  });
  return cluster().objects.token("default", account);
}

const ask = (token: string, route: string, init: RequestInit = {}) =>
  fetch(`${url}${route}`, { ...init, headers: { authorization: `Bearer ${token}`, ...init.headers } });

/** One request per connection: the server closes a kept one after some seconds, perhaps in the moment of the next request. */
const askHealth = (route: string) => fetch(`${health}${route}`, { headers: { connection: "close" } });

async function publish(name: string, host: Host): Promise<void> {
  const spec = { ...host.spec, addresses: ["192.168.7.20"] };
  await apply({ apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name }, spec });
  const body = { metadata: { name }, status: host.status } as Host;
  const result = await client.apply(HOSTS, body, { manager: MANAGER_AGENT, subresource: "status" });
  if (!result.ok) throw new Error(result.error.message);
}

beforeAll(async () => {
  if (why !== undefined) return;
  folder = await mkdtemp(path.join(tmpdir(), "mb-server-"));
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  connection = await connect({ kubeconfigPath: cluster().kubeconfig });
  stack.defer(() => connection.close());
  client = createClient(connection);
  const values = "server.enabled=true,node.enabled=true,crds.install=false";
  const chart = await render(helmIn(folder), "--set", values);
  const rights = chart.filter(
    ({ kind, metadata: { name } }) =>
      /Role|Account|AdmissionPolicy/.test(kind) && /-(server|density-reader|node|node-reports)$/.test(name),
  );
  expect(rights).toHaveLength(15);
  await apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: SYSTEM } }, ...rights);
  const kubeconfig = path.join(folder, "kubeconfig");
  await writeAccountKubeconfig(cluster(), {
    name: "metalbridge-server",
    namespace: SYSTEM,
    file: kubeconfig,
  });
  nodes = stack.use(await startKwok({ ...cluster(), dir: path.join(folder, "kwok") }));
  await nodes.add({ name: "cpu-1" }, { name: "gpu-1", labels: A100S.labels, capacity: A100S.allocatable });
  await publish("mac-1", aHost("mac-1", { status: { models: [{ source: SOURCE, tokensPerSecond: 47 }] } }));
  await publish("mac-2", aHost("mac-2", { memoryGib: 16 }));
  const renew = () => Promise.all(["mac-1", "mac-2"].map((host) => renewLease(client, host)));
  await renew();
  const renewing = setInterval(() => void renew().catch(() => {}), 10_000);
  stack.defer(() => clearInterval(renewing));

  const stop = new AbortController();
  const listening = Promise.withResolvers<{ readonly api: number; readonly health: number }>();
  const config = parseServerConfig({ kubeconfig, port: 0, healthPort: 0 });
  const options = { config, records: catalogRecords(), version: "0.0.0", log: quietLog, signal: stop.signal };
  const running = runServer({ ...options, onListening: listening.resolve });
  stack.defer(async () => {
    stop.abort();
    await running;
  });
  const ports = await Promise.race([
    listening.promise,
    running.then(() => Promise.reject(new Error("it ended"))),
  ]);
  url = `http://127.0.0.1:${ports.api}`;
  health = `http://127.0.0.1:${ports.health}`;
  await vi.waitFor(async () => expect((await askHealth("/readyz")).status).toBe(200), WAIT);
});
afterAll(() => stack.disposeAsync());

/** A replica on a host and a pod on a node, as controller and agent would create them. */
async function place(): Promise<void> {
  await apply(
    withFields(manifest("Model", "qwen", "default"), { "spec.source": SOURCE }),
    withFields(manifest("InferenceService", "chat", "default"), { "spec.modelRef": "qwen" }),
    withFields(manifest("InferenceReplica", "chat-0", "default"), { "spec.memory.claimBytes": 8 * GIB }),
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: "big-0",
        namespace: "default",
        labels: { [LABEL_SERVICE]: "big", [LABEL_SERVICE_UID]: "1" },
      },
      spec: {
        nodeName: "gpu-1",
        serviceAccountName: "reader",
        containers: [
          { name: "engine", image: "x", resources: { limits: { "nvidia.com/gpu": "2", memory: "40Gi" } } },
        ],
      },
    },
  );
}

test.skipIf(why !== undefined)(
  `every route answers authorized accounts only${why === undefined ? "" : ` (${why})`}`,
  async () => {
    const [reader, other] = await Promise.all([tokenOf("reader"), tokenOf("other")]);
    const first = "/api/v1/density/nodes";
    const status = async (token: string, route = first) => (await ask(token, route)).status;
    expect(await status("made.up.token")).toBe(401);
    expect((await fetch(`${url}${first}`)).status).toBe(401);
    expect(await status(other)).toBe(403);
    await apply({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRoleBinding",
      metadata: { name: "density-readers" },
      subjects: [{ kind: "ServiceAccount", name: "reader", namespace: "default" }],
      roleRef: {
        apiGroup: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        name: "metalbridge-density-reader",
      },
    });
    await vi.waitFor(async () => expect(await status(reader)).toBe(200), WAIT);

    const stream = new AbortController();
    const events = eventsOf(await ask(reader, `${first}?watch=true`, { signal: stream.signal }));
    await events.until(({ event }) => event === "synced");

    await place();
    const examples: Record<string, string> = {
      "/api/v1/density/nodes/:name": `${first}/mac-1`,
      "/api/v1/density/query": "/api/v1/density/query?model=Qwen2.5-7B",
    };
    const answers: Record<string, unknown> = {};
    await vi.waitFor(async () => {
      const answer = await ask(reader, "/api/v1/density/cost");
      expect(await answer.json()).toMatchObject({ models: [{ name: "big" }, { name: "qwen" }] });
    }, WAIT);
    for (const route of routes) {
      const isPost = route.method === "POST";
      const init = isPost
        ? { method: "POST", body: '{"model":"Qwen2.5-7B","quantization":"q4_k_m","context":4096}' }
        : {};
      const answer = await ask(reader, examples[route.path] ?? route.path, init);
      expect(answer.status, route.path).toBe(200);
      answers[route.path] = route.response.parse(await answer.json());
      expect((await ask(other, examples[route.path] ?? route.path, init)).status, route.path).toBe(403);
    }
    expect(answers[first]).toMatchObject({
      total: 4,
      nodes: [
        { nodeName: "cpu-1", kind: "Node", stale: false },
        { nodeName: "gpu-1", system: { gpu_count: 4, gpu_vram_gb: 80 }, memoryLeftGb: 144 },
        {
          nodeName: "mac-1",
          kind: "Host",
          stale: false,
          memoryLeftGb: 40,
          installedModels: [{ name: SOURCE }],
        },
        { nodeName: "mac-2" },
      ],
    });
    expect(answers["/api/v1/density/simulate"]).toMatchObject({ canFitAnywhere: true });
    expect(answers["/api/v1/density/cost"]).toMatchObject({
      models: [
        { name: "big", gpu: 2, memoryRequiredGb: 144 },
        { name: "qwen", placedNode: "mac-1", memoryRequiredGb: 8 },
      ],
    });
    await events.until(
      ({ data }) => data.includes('"nodeName":"mac-1"') && data.includes('"memoryLeftGb":40'),
    );

    await expect(toolsFor("made.up.token")).rejects.toThrow(/send a token/);
    await expect(toolsFor(other)).rejects.toThrow(/may not create density\/mcp/);
    const tool = await toolsFor(reader);
    const fit = await tool("fit", { model: "Qwen2.5-7B", limit: 1 });
    expect(fit.rankedNodes).toHaveLength(1);
    const specs = await tool("get_system_specs", { node: "mac-1" });
    expect(specs).toMatchObject({ node: "mac-1", system: { backend: "Metal", has_gpu: true } });
    const installed = { models: [{ name: "qwen2.5-7b-instruct-q4_k_m", runtime: "llamacpp" }] };
    expect(await tool("get_installed_models", { node: "mac-1" })).toEqual(installed);
    expect(await tool("list_services")).toMatchObject({
      services: [{ service: "default/chat", hosts: ["mac-1"] }],
    });
    const explained = await tool("explain_placement", { service: "chat" });
    expect(explained).toMatchObject({ model: "qwen", replicas: [{ name: "chat-0", host: "mac-1" }] });

    const lost = [
      {
        type: "Reachable",
        status: "False",
        reason: "LeaseExpired",
        message: "silent",
        lastTransitionTime: "2026-01-01T00:00:00Z",
      },
    ] as const;
    await publish("mac-2", aHost("mac-2", { memoryGib: 16, status: { conditions: [...lost] } }));
    await events.until(({ data }) => data.includes('"nodeName":"mac-2"') && data.includes('"stale":true'));
    await cluster().objects.remove("", "host/mac-2");
    await events.until(({ event, data }) => event === "delete" && data.includes("Host/mac-2"));
    stream.abort();

    const report = await runVerb(["report", "--markdown"], cluster());
    expect(report.stdout, report.stderr).toMatch(/^\| mac-1 \| Host \| [\d.]+ \| \d+ \| 40 \| {2}\|$/m);

    const metrics = await (await askHealth("/metrics")).text();
    expect(metrics).toContain('metalbridge_density_node_gpu_count{node="gpu-1",kind="Node"} 4\n');
    expect(metrics).toContain("metalbridge_density_cluster_nodes_total 3\n");
  },
);

test.skipIf(why !== undefined)(
  "a node publishes its report when it changes, and may write nothing else",
  async () => {
    const root = path.join(folder, "host");
    const memory = (availableKb: number) =>
      writeFileAtomic(
        path.join(root, "proc/meminfo"),
        `MemTotal: 134217728 kB\nMemAvailable: ${availableKb} kB\n`,
      );
    await mkdir(path.join(root, "proc"), { recursive: true });
    await writeFile(path.join(root, "proc/cpuinfo"), await readFile("/proc/cpuinfo"));
    await memory(100_000_000);
    await nodes.add({ name: "this-1" });
    const kubeconfig = await nodeCredential(cluster(), "this-1", folder);
    const own = await connect({ kubeconfigPath: kubeconfig });
    stack.defer(() => own.close());
    const node = createClient(own);
    const map = (name: string, extra: object = {}): ConfigMap => ({
      metadata: {
        name: `metalbridge-node-${name}`,
        namespace: SYSTEM,
        labels: { [LABEL_NODE_REPORT]: "true" },
        ...extra,
      },
      data: { "node.json": "{}" },
    });
    const refusal = async (wish: ConfigMap): Promise<string> => {
      const result = await node.create(CONFIG_MAPS, wish, { isDryRun: true });
      return result.ok ? "" : result.error.message;
    };
    // A new policy takes a moment to be enforced.
    await vi.waitFor(async () => expect(await refusal(map("cpu-1"))).toContain("its own report only"), WAIT);
    expect(await refusal(map("this-1"))).toBe("");
    expect(await refusal(map("this-1", { annotations: { a: "b" } }))).toContain("its one label");
    expect(await refusal({ ...map("this-1"), data: { "node.json": "{}", more: "x" } })).toContain(
      "the key node.json",
    );
    const owner = { apiVersion: "v1", kind: "Node", name: "cpu-1", uid: "1" };
    expect(await refusal(map("this-1", { ownerReferences: [owner] }))).toContain("belongs to its own Node");
    const ref = { name: "metalbridge-node-this-1", namespace: SYSTEM };
    expect(await node.get(CONFIG_MAPS, ref)).toMatchObject({ error: { kind: "forbidden" } });
    const unbound = path.join(folder, "unbound");
    await writeAccountKubeconfig(cluster(), { name: "metalbridge-node", namespace: SYSTEM, file: unbound });
    const stranger = await connect({ kubeconfigPath: unbound });
    stack.defer(() => stranger.close());
    const answer = await createClient(stranger).create(CONFIG_MAPS, map("this-1"), { isDryRun: true });
    expect(answer).toMatchObject({ error: { message: expect.stringContaining("the token names no node") } });

    const { seen, end } = startNodeDaemon(kubeconfig, root, "this-1");
    try {
      const after = (passes: number) => vi.waitFor(() => expect(seen.passes).toBeGreaterThan(passes), WAIT);
      await vi.waitFor(() => expect(seen.written).toBe(1), WAIT);
      await after(seen.passes + 20);
      expect(seen.answers).toEqual(["GET 200", "PATCH 201"]);
      const reader = await tokenOf("reader");
      const shown = async () => (await ask(reader, "/api/v1/density/nodes/this-1")).json();
      const system = {
        cpu_name: cpus()[0]?.model,
        cpu_cores: cpus().length,
        total_ram_gb: 128,
        available_ram_gb: 95.25,
      };
      await vi.waitFor(async () => expect(await shown()).toMatchObject({ System: system }), WAIT);

      await cluster().objects.remove(SYSTEM, `configmap/${ref.name}`);
      await vi.waitFor(
        async () => expect(await shown()).toMatchObject({ System: { cpu_name: "amd64" } }),
        WAIT,
      );
      await memory(10_000_000);
      await vi.waitFor(
        async () => expect(await shown()).toMatchObject({ System: { available_ram_gb: 9.5 } }),
        WAIT,
      );
      // The watch event may arrive before the response to the write.
      await vi.waitFor(() => expect(seen.answers.slice(2)).toEqual(["GET 200", "PATCH 201"]), WAIT);
    } finally {
      await end();
    }
    await cluster().objects.remove("", "node/this-1");
    await vi.waitFor(async () => {
      expect(await client.get(CONFIG_MAPS, ref)).toMatchObject({ error: { kind: "notFound" } });
    }, COLLECTED);
  },
);

/** Calls the tools at /mcp with the SDK's client. */
async function toolsFor(token: string) {
  const mcp = new Client({ name: "test", version: "1" });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
  await mcp.connect(transport as Transport);
  return async (name: string, args: Record<string, unknown> = {}) => {
    const { content } = await mcp.callTool({ name, arguments: args });
    return JSON.parse((content as readonly { readonly text: string }[])[0]?.text ?? "");
  };
}

test.skipIf(why !== undefined)(
  "invalid tokens evict no valid token from the cache, and one address does not block token reviews for others",
  async () => {
    let asked = 0;
    const onAnswer = () => {
      asked += 1;
    };
    const noted = await connect({ kubeconfigPath: cluster().kubeconfig, onResponse: onAnswer });
    stack.defer(() => noted.close());
    const [first, second] = await Promise.all([tokenOf("first"), tokenOf("second")]);
    const rbac = "rbac.authorization.k8s.io";
    const accounts = ["first", "second"].map((name) => ({
      kind: "ServiceAccount",
      name,
      namespace: "default",
    }));
    await apply({
      ...{ apiVersion: `${rbac}/v1`, kind: "ClusterRoleBinding", metadata: { name: "authorized" } },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "cluster-admin" },
      subjects: accounts,
    });
    const limits = { granted: 2, refused: 2, pending: 8, pendingOfAddress: 4 };
    const authorize = createRestAuthorizer({ client: createClient(noted), clock: systemClock, limits });
    const ask = (token: string, address: string) => authorize(token, { verb: "get", part: "nodes" }, address);
    await vi.waitFor(async () => expect((await ask(first, "10.0.0.1")).at).toBe("allowed"), WAIT);
    for (let turn = 0; turn < 10; turn += 1)
      expect(await ask(`made.up.${turn}`, "10.0.0.9")).toEqual({ at: "unauthenticated" });
    const before = asked;
    expect((await ask(first, "10.0.0.1")).at).toBe("allowed");
    expect((await ask("made.up.9", "10.0.0.9")).at).toBe("unauthenticated");
    expect(asked).toBe(before);

    const flood = Array.from({ length: 6 }, (_, turn) => ask(`flood.${turn}`, "10.0.0.9"));
    expect((await ask(second, "10.0.0.2")).at).toBe("allowed");
    const verdicts = (await Promise.all(flood)).map(({ at }) => at);
    expect(verdicts).toEqual([...Array(4).fill("unauthenticated"), "unavailable", "unavailable"]);
  },
);
