import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OUR_REPOSITORY } from "../../scripts/images/for-tests.ts";
import { llamacppPod } from "../../src/engines/llamacpp/pod.ts";
import { PODS } from "../../src/kube/kinds.ts";
import { processesNaming } from "../bed/leftovers.ts";
import { openNetwork } from "../bed/network.ts";
import { removeNodeLeftovers } from "../bed/node/leftovers.ts";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { localVolume } from "../bed/node/volumes.ts";
import { run } from "../bed/run.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import type { TestNamespace } from "./namespace.ts";
import { oneRealCluster, type RealCluster, startNode } from "./node.ts";

const why = whyNoRealNode();
const title = (text: string) => (why === undefined ? text : `${text} (skipped: ${why})`);
const root = path.resolve(import.meta.dirname, "../..");
const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };

describe.skipIf(why !== undefined)(title("real nodes"), () => {
  const before = why === undefined ? sysctls() : "";
  const shared = oneRealCluster({
    crds: false,
    nodes: [
      { name: "node-1", zone: "a" },
      { name: "node-2", zone: "b", capacity: { "nvidia.com/gpu": "1" } },
    ],
  });
  let namespace: TestNamespace;
  const kubectl: RealCluster["kubectl"] = (args, options) =>
    shared().kubectl(["-n", namespace.name, ...args], options);
  const create = async (...items: readonly Item[]) => {
    for (const item of items)
      await shared().objects.create({ ...item, metadata: { ...item.metadata, namespace: namespace.name } });
  };
  const read = (what: string) => shared().objects.get(namespace.name, what);
  const untilSucceeded = (name: string) =>
    shared().objects.until(namespace.name, `pod/${name}`, (pod) =>
      expect(pod?.status.phase).toBe("Succeeded"),
    );
  const untilTrue = (what: string, type: string) =>
    shared().objects.until(namespace.name, what, (found) =>
      expect(found?.status.conditions).toContainEqual(expect.objectContaining({ type, status: "True" })),
    );

  beforeAll(async () => {
    namespace = await shared().namespace();
  });
  afterAll(() => namespace[Symbol.asyncDispose]());

  test("our image runs as it is published: no root, a read-only root, no capabilities", async ({
    annotate,
  }) => {
    const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
    await shared().objects.patch("", `namespace/${namespace.name}`, { metadata: { labels } });
    const started = performance.now();
    await create(
      pod("version", {
        restartPolicy: "Never",
        containers: [container("metalbridge", `${OUR_REPOSITORY}:${version}`, ["--version"])],
      }),
    );
    await untilSucceeded("version");
    await annotate(`ended ${Math.round(performance.now() - started)} ms after its creation`);
    expect((await kubectl(["logs", "version"])).trim()).toBe(version);
  });

  test("an engine answers through its Service, from a volume that was bound late", async ({ annotate }) => {
    const node = shared().node("node-1");
    const volume = await localVolume(shared().objects, node, { size: "64Mi", tmpfs: true });
    await writeTinyGguf(path.join(volume.folder, "tiny.gguf"));
    await create(...engine());
    const started = performance.now();
    await untilTrue("deployment/engine", "Available");
    await annotate(`available ${Math.round(performance.now() - started)} ms after its creation`);
    const address = (await read("service/engine")).spec.clusterIP;
    // From the other node, and from a pod on it.
    const other = shared().node("node-2");
    const health = () => other.run("curl", "-sS", "-m", "5", `http://${address}/health`);
    await until(async () => expect(await health()).toContain("ok"));
    const ask = `curl -sS -m 5 http://${address}/v1/models && curl -skS -m 5 https://10.0.0.1/livez -o /dev/null -w '%{http_code}'`;
    await create(
      pod("client", {
        nodeName: "node-2",
        restartPolicy: "Never",
        containers: [{ ...container("curl", ENGINE, ["-c", ask]), command: ["/usr/bin/dash"] }],
      }),
    );
    await untilSucceeded("client");
    // The API server knows no anonymous client.
    expect(await kubectl(["logs", "client"])).toMatch(/tiny\.gguf.*401$/s);
  });

  test("an engine that is killed runs again", async () => {
    const [{ metadata }] = await shared().objects.list(PODS, "app=engine", namespace.name);
    const [pid] =
      (await shared().node("node-1").containers(namespace.name, metadata.name)).get("engine") ?? [];
    process.kill(pid ?? 0, "SIGKILL");
    await until(async () => {
      const { status } = await read(`pod/${metadata.name}`);
      expect(status.containerStatuses[0]).toMatchObject({
        restartCount: 1,
        ready: true,
        lastState: { terminated: { exitCode: 137, reason: "Error" } },
      });
    });
  });

  test("a pod that asks for a resource without a device is scheduled to the node that has it", async () => {
    const resources = { limits: { "nvidia.com/gpu": "1" } };
    const gpu = { ...container("gpu", "registry.k8s.io/pause:3.10", []), resources };
    await create(pod("gpu", { containers: [gpu] }));
    await untilTrue("pod/gpu", "Ready");
    expect((await read("pod/gpu")).spec.nodeName).toBe("node-2");
  });

  test("a node that loses power comes back with its disk, and one that is disposed of is gone", async ({
    annotate,
  }) => {
    const started = performance.now();
    const taint = { key: "spare", effect: "NoSchedule" };
    await using node = await startNode(shared(), { name: "node-3", taints: [taint] });
    await annotate(`ready ${Math.round(performance.now() - started)} ms after its start`);
    await create(
      pod("held", {
        nodeName: "node-3",
        tolerations: [{ operator: "Exists" }],
        containers: [container("pause", "registry.k8s.io/pause:3.10", [])],
      }),
    );
    await untilTrue("pod/held", "Ready");
    await node.kill();
    expect(await node.containers(namespace.name, "held")).toEqual(new Map());
    await node.boot();
    await until(async () => {
      const { status } = await read("pod/held");
      expect(status.containerStatuses[0]).toMatchObject({ ready: true, restartCount: 1 });
    });
    await node[Symbol.asyncDispose]();
    expect((await shared().objects.get("", "nodes")).items).toHaveLength(2);
    expect(existsSync(node.folder)).toBe(false);
    expect(cgroups(path.basename(node.folder))).toEqual([]);
  });

  test("nothing of the cluster is left on this machine", async () => {
    const { nodes } = shared();
    const names = nodes.map(({ folder }) => path.basename(folder));
    const bridge = new RegExp(`\\b${names[0]?.replace(/^mbtest-(\d+)-.*/, "mbtest$1")}\\b`);
    expect(await traces(names, bridge)).not.toEqual(NOTHING);
    await shared()[Symbol.asyncDispose]();
    expect(await traces(names, bridge)).toEqual(NOTHING);
    expect(sysctls()).toEqual(before);
  });
});

test.skipIf(why !== undefined)(title("what a killed run left is removed by the next"), async () => {
  const bed = (name: string) =>
    JSON.stringify(pathToFileURL(path.join(import.meta.dirname, "../bed", name)).href);
  // A machine that has booted: neither kubelet nor pods would leave more.
  const script = `
    const { openNetwork } = await import(${bed("network.ts")});
    const { prepareNode } = await import(${bed("node/node.ts")});
    const { prepareImages } = await import(${bed("node/images.ts")});
    const { nodeParts } = await import(${bed("node/parts.ts")});
    const network = await openNetwork([]);
    await prepareNode(network, { name: "node-1" }, await prepareImages(nodeParts(), []));
    console.log(network.station("node-1").namespace);
    setImmediate(() => process.kill(process.pid, "SIGKILL"));`;
  const { stdout, signal, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "-e", script],
    { encoding: "utf8", cwd: root },
  );
  const name = stdout.trim();
  expect([signal, name], stderr).toEqual(["SIGKILL", expect.stringMatching(/^mbtest-\d+-\d+-node-1$/)]);
  // Its watchdogs end the processes; another worker may remove the rest at any moment.
  await until(() => expect(processesNaming(name)).toEqual([]));
  await removeNodeLeftovers();
  await using _network = await openNetwork([]);
  const bridge = new RegExp(`\\b${name.replace(/^mbtest-(\d+)-.*/, "mbtest$1")}p0\\b`);
  expect(await traces([name], bridge)).toEqual(NOTHING);
});

const ENGINE = llamacppPod.images.cpu ?? "";
const NOTHING = { mounts: [], groups: [], links: [], routes: [], spaces: [], processes: [], folders: [] };

/** What the machine shows of nodes with these names. */
async function traces(names: readonly string[], bridge: RegExp) {
  const isOurs = (line: string) => names.some((name) => line.includes(name));
  const lines = async (...args: readonly string[]) => (await run("ip", args)).split("\n");
  return {
    mounts: readFileSync("/proc/mounts", "utf8")
      .split("\n")
      .filter((line) => isOurs(line) || line.includes("cni-")),
    groups: names.flatMap(cgroups),
    links: (await lines("-o", "link")).filter((line) => bridge.test(line)),
    routes: (await lines("route")).filter((line) => bridge.test(line)),
    spaces: (await lines("netns", "list")).filter((line) => isOurs(line) || line.startsWith("cni-")),
    processes: names.flatMap(processesNaming),
    folders: names.filter((name) => existsSync(path.join(tmpdir(), name))),
  };
}

function cgroups(name: string): readonly string[] {
  const hierarchies = readdirSync("/sys/fs/cgroup").map((hierarchy) =>
    path.join("/sys/fs/cgroup", hierarchy, name),
  );
  return hierarchies.filter((folder) => existsSync(folder));
}

function sysctls(): string {
  const names = ["kernel.panic", "kernel.panic_on_oops", "vm.overcommit_memory", "net.ipv4.ip_forward"];
  return names.map((name) => readFileSync(`/proc/sys/${name.replaceAll(".", "/")}`, "utf8")).join("");
}

interface Item {
  readonly metadata: object;
}

/** Passes the restricted level. */
function container(name: string, image: string, args: readonly string[]) {
  const securityContext = {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  };
  return { name, image, args, securityContext };
}

function pod(name: string, spec: object) {
  const securityContext = {
    runAsNonRoot: true,
    runAsUser: 65532,
    seccompProfile: { type: "RuntimeDefault" },
  };
  const common = { terminationGracePeriodSeconds: 1, securityContext, automountServiceAccountToken: false };
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec: { ...common, ...spec } };
}

function engine(): readonly Item[] {
  const name = "engine";
  const labels = { app: name };
  const claim = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "weights" },
    spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "64Mi" } } },
  };
  const args = ["--host", "0.0.0.0", "--port", "8080", "--model", "/weights/tiny.gguf"];
  const server = {
    ...container(name, ENGINE, args),
    volumeMounts: [{ name: "weights", mountPath: "/weights", readOnly: true }],
    readinessProbe: { httpGet: { path: "/health", port: 8080 }, periodSeconds: 1 },
  };
  const { spec } = pod(name, {
    containers: [server],
    volumes: [{ name: "weights", persistentVolumeClaim: { claimName: "weights" } }],
  });
  const deployment = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name },
    spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] },
  };
  return [claim, deployment, service];
}
