/** `metalbridge cluster-fit` with the rights of its example on a real API server; the test is the nodes' kubelet. */

import { execFile } from "node:child_process";
import { readFile, symlink } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { parseAllDocuments } from "yaml";
import { aHost } from "../fitness/density/fixtures/fleet.ts";
import { packageRoot } from "../local/package-root.ts";
import { MANAGER_AGENT, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { NODES, PODS } from "../src/kube/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import type { Node, Pod } from "../src/kube/workload-objects.ts";
import { writeAccountKubeconfig } from "../test/bed/identity.ts";
import { must } from "../test/bed/must.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { oneCluster } from "../test/cluster/cluster.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";

const GIB = 1024 ** 3;
const WAIT = { timeout: 60_000, interval: 50 };
const EXAMPLE = path.join(packageRoot(), "examples", "rbac", "cluster-fit.yaml");
const cluster = oneCluster();
const stack = new AsyncDisposableStack();
let connection: KubeConnection;
let client: KubeClient;
let kubeconfig = "";

beforeAll(async () => {
  connection = await connect({ kubeconfigPath: cluster().kubeconfig });
  stack.defer(() => connection.close());
  client = createClient(connection);
  await cluster().objects.apply(
    ...parseAllDocuments(await readFile(EXAMPLE, "utf8")).map((one) => one.toJS()),
  );
  // Pods need the account that a controller manager would have made.
  for (const name of ["default", "stranger"]) {
    const metadata = { name, namespace: NAMESPACE_SYSTEM };
    await cluster().objects.create({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  }
  kubeconfig = path.join(cluster().dir, "cluster-fit.kubeconfig");
  const account = { name: "metalbridge-cluster-fit", namespace: NAMESPACE_SYSTEM, file: kubeconfig };
  await writeAccountKubeconfig(cluster(), account);
});
afterAll(() => stack.disposeAsync());

const now = () => new Date().toISOString().replace(/\.\d+Z$/, "Z");
const readiness = (isReady: boolean) => ({
  conditions: [
    {
      type: "Ready",
      status: isReady ? "True" : "Unknown",
      reason: "Test",
      message: "kubelet stopped",
      lastHeartbeatTime: now(),
      lastTransitionTime: now(),
    },
  ],
  nodeInfo: {
    operatingSystem: "linux",
    architecture: "amd64",
    machineID: "",
    systemUUID: "",
    bootID: "",
    kernelVersion: "",
    osImage: "",
    containerRuntimeVersion: "",
    kubeletVersion: "",
    kubeProxyVersion: "",
  },
});

const setReady = async (name: string, isReady: boolean) =>
  must(
    await client.jsonPatch(
      NODES,
      { name },
      [{ op: "add", path: "/status", value: { ...readiness(isReady), capacity: { memory: "64Gi" } } }],
      { subresource: "status" },
    ),
  );

async function addNodes(...names: readonly string[]): Promise<AsyncDisposable> {
  for (const name of names) {
    must(await client.create<Node>(NODES, { metadata: { name } }));
    await setReady(name, true);
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const name of names) await client.remove(NODES, { name });
    },
  };
}

const listPods = async () => must(await client.list(PODS, { namespace: NAMESPACE_SYSTEM })).items;

const ended = (exitCode: number, message: string) => ({
  phase: exitCode === 0 ? "Succeeded" : "Failed",
  containerStatuses: [
    {
      name: "probe",
      image: "i",
      imageID: "i",
      ready: false,
      restartCount: 0,
      state: { terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", message } },
    },
  ],
});
const answer = (availableGib: number) =>
  ended(
    0,
    JSON.stringify({
      memory: { totalBytes: 64 * GIB, availableBytes: availableGib * GIB },
      cpu: { name: "AMD EPYC", cores: 16, arch: "amd64" },
      gpus: [],
      runtimes: [],
      models: [],
      leftOut: [],
    }),
  );

/** Ends each pod once, as `act` says for its node; knows the most pods at a time. */
function playKubelet(act: (node: string, pod: Pod) => Promise<object | undefined>) {
  const end = new AbortController();
  const seen = new Set<string>();
  const alive = new Set<string>();
  let most = 0;
  startReflector<Pod>({
    connection,
    kind: PODS,
    namespace: NAMESPACE_SYSTEM,
    clock: systemClock,
    log: quietLog,
    signal: end.signal,
    onChange: (key, pod) => {
      if (pod === undefined) alive.delete(key);
      else alive.add(key);
      most = Math.max(most, alive.size);
      if (pod === undefined || seen.has(key)) return;
      seen.add(key);
      void act(pod.spec.nodeName ?? "", pod).then(async (value) => {
        if (value === undefined) return;
        const { name } = pod.metadata;
        const operations = [{ op: "add" as const, path: "/status", value }];
        await client.jsonPatch(PODS, { name, namespace: NAMESPACE_SYSTEM }, operations, {
          subresource: "status",
        });
      });
    },
  });
  return { most: () => most, seen, [Symbol.dispose]: () => end.abort() };
}

const ask = (...more: readonly string[]) => [
  ...["cluster-fit", "--model", "Qwen2.5-7B", "-o", "json", "--probe-image", "metalbridge:test", ...more],
];

async function publishMac(): Promise<void> {
  const { spec, status } = aHost("mac-1");
  const head = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: "mac-1" } };
  await cluster().objects.apply({ ...head, spec: { ...spec, addresses: ["192.168.7.20"] } });
  const body = { metadata: { name: "mac-1" }, status } as Host;
  must(await client.apply(HOSTS, body, { manager: MANAGER_AGENT, subresource: "status" }));
}

test("nodes answer through their pods and Macs by their status; what fails is an error of its node", {
  timeout: 180_000,
}, async () => {
  const names = ["big", "small", "broken", "rubbish", "dies", "deleted", "gone", "more-1", "more-2"];
  await using nodes = await addNodes(...names);
  expect(nodes).toBeDefined();
  await setReady("gone", false);
  await publishMac();
  const controller = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: "metalbridge",
      namespace: NAMESPACE_SYSTEM,
      labels: { "app.kubernetes.io/name": "metalbridge", "app.kubernetes.io/component": "controller" },
    },
    spec: {
      selector: { matchLabels: { a: "b" } },
      template: {
        metadata: { labels: { a: "b" } },
        spec: { containers: [{ name: "c", image: "metalbridge:7" }] },
      },
    },
  };
  await cluster().objects.apply(controller);
  const planned: Pod[] = [];
  using kubelet = playKubelet(async (node, pod) => {
    planned.push(pod);
    if (node === "broken") return ended(1, "no /proc/meminfo");
    if (node === "rubbish") return ended(0, "Illegal instruction");
    if (node === "dies") return void (await setReady(node, false));
    if (node === "deleted")
      return void (await client.remove(PODS, { name: pod.metadata.name, namespace: NAMESPACE_SYSTEM }));
    return answer(node === "small" ? 2 : 64);
  });
  const args = ["cluster-fit", "--model", "Qwen2.5-7B", "--concurrency", "2", "-o", "json"];
  const { code, stdout, stderr } = await runVerb(args, { kubeconfig });
  expect([code, stderr]).toEqual([0, ""]);
  const payload = JSON.parse(stdout);
  expect(payload).toMatchObject({ requested_model: "Qwen2.5-7B", min_fit: "good", node_count: 10 });
  const ranked = payload.ranked_nodes as { node: string; best_model: string }[];
  expect(ranked.map(({ node }) => node)).toEqual(["mac-1", "big", "more-1", "more-2"]);
  expect(new Set(ranked.map(({ best_model }) => best_model))).toEqual(new Set(["Qwen/Qwen2.5-7B-Instruct"]));
  const results = new Map(payload.node_results.map((one: { node: string }) => [one.node, one]));
  const error = "probe did not succeed (phase=Failed)";
  expect(results.get("small")).toMatchObject({ matched_count: 0, top: [] });
  expect(results.get("broken")).toMatchObject({ error, reason: "Error", message: "no /proc/meminfo" });
  expect(results.get("rubbish")).toMatchObject({
    error: "probe output was not valid JSON",
    raw: "Illegal instruction",
  });
  expect(results.get("dies")).toMatchObject({ error, reason: "NodeNotReady", message: "kubelet stopped" });
  expect(results.get("deleted")).toMatchObject({ error, reason: "PodDeleted" });
  expect(results.get("gone")).toMatchObject({ error, reason: "NodeNotReady" });
  expect(kubelet.most()).toBeLessThanOrEqual(2);
  // Neither the Mac nor the node that was not ready had a pod.
  expect(planned.map(({ spec }) => spec.nodeName).sort()).toEqual(
    names.filter((name) => name !== "gone").sort(),
  );
  expect(planned[0]?.spec).toMatchObject({
    activeDeadlineSeconds: 180,
    containers: [{ image: "metalbridge:7" }],
  });
  expect(await listPods()).toEqual([]);
});

test("a pod that does not end in time is an error, and is deleted", { timeout: 120_000 }, async () => {
  await using nodes = await addNodes("slow");
  expect(nodes).toBeDefined();
  const { code, stdout } = await runVerb(ask("--timeout", "1"), { kubeconfig });
  expect(code).toBe(0);
  const result = JSON.parse(stdout).node_results.find(({ node }: { node: string }) => node === "slow");
  expect(result).toMatchObject({
    error: "probe did not succeed (phase=Timeout)",
    reason: "DeadlineExceeded",
  });
  expect(await listPods()).toEqual([]);
});

test("Ctrl-C deletes the pods, and prints no half answer", { timeout: 120_000 }, async () => {
  await using nodes = await addNodes("a", "b", "c");
  expect(nodes).toBeDefined();
  await using program = startProgram(ask("--concurrency", "2"), { kubeconfig });
  await vi.waitFor(async () => expect(await listPods()).toHaveLength(2), WAIT);
  program.child.kill("SIGINT");
  expect(await program.ended).toMatchObject({ code: 130, stdout: "" });
  expect(await listPods()).toEqual([]);
});

test("missing rights are named before the first pod; without nodes there is nothing to ask", {
  timeout: 120_000,
}, async () => {
  const file = path.join(cluster().dir, "stranger.kubeconfig");
  await writeAccountKubeconfig(cluster(), { name: "stranger", namespace: NAMESPACE_SYSTEM, file });
  const refused = await runVerb(ask(), { kubeconfig: file });
  expect(refused).toMatchObject({ code: 1, stdout: "" });
  expect(refused.stderr).toMatch(
    /^ApiForbidden: the credential may not list nodes, get nodes, create pods in metalbridge-system, [\s\S]*kubectl apply -f examples\/rbac\/cluster-fit.yaml/,
  );
  const withoutImage = ["cluster-fit", "--model", "Qwen2.5-7B"];
  const imageRight = `list deployments in ${NAMESPACE_SYSTEM}`;
  expect((await runVerb(withoutImage, { kubeconfig: file })).stderr).toContain(imageRight);
  expect(refused.stderr).not.toContain(imageRight);
  // The example grants its namespace, and no other.
  expect((await runVerb(ask("-n", "default"), { kubeconfig })).stderr).toContain("create pods in default");
  await cluster().objects.remove("", "hosts");
  const link = path.join(cluster().dir, "llmfit-cluster-fit");
  await symlink(path.join(packageRoot(), "cli", "metalbridge.mjs"), link);
  const env = { PATH: process.env.PATH, HOME: "/nonexistent", KUBECONFIG: kubeconfig };
  const empty = promisify(execFile)(process.execPath, [link, "--model", "Qwen2.5-7B"], { env });
  await expect(empty).rejects.toMatchObject({
    code: 1,
    stdout: expect.stringContaining("no Kubernetes nodes found"),
  });
  expect(await runVerb(ask("--model", "NoSuchModel-7B"), { kubeconfig })).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^CatalogModelUnknown: NoSuchModel-7B is not in the catalog/),
  });
});

test.each([
  [[]],
  [["--model", "x", "--min-fit", "great"]],
  [["--model", "x", "--limit", "0"]],
  [["--model", "x", "--timeout", "0"]],
  [["--model", "x", "--concurrency", "-1"]],
  [["--model", "x", "--wings"]],
])("the command line %j is refused with 2", async (more) => {
  expect(await runVerb(["cluster-fit", ...more], { kubeconfig })).toMatchObject({ code: 2, stdout: "" });
});
