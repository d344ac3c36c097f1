/** Pods that are replaced by a change or by their age, with the real API server, controllers and scheduler, and kwok's nodes. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import { LABEL_NODE_REPORT, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { NODE_REPORT_KEY, nodeReportName } from "../../src/api/node-report.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import type { Deployment, Pod } from "../../src/kube/workload-objects.ts";
import type { Log } from "../../src/util/ports.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { scriptAnnotations } from "../../test/bed/kwok-stages.ts";
import { until as poll } from "../../test/bed/until.ts";
import { runProgram } from "../../test/cli/program.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { createObserver } from "./fixtures/observe.ts";
import { priorityClasses } from "./workload/priorities.ts";

const why = whyNoSimulatedNodes();
const NS = "rollouts";
/** Names of replicas and pods, once live eviction knows their fitness. */
const observed: unknown[] = [];
const LOG: Log = {
  ...quietLog,
  debug: (data, message) => {
    if (message === "fitness observed") observed.push((data as { name?: unknown }).name);
  },
};

/** The API server's clock may differ: everything waits as long as it would otherwise. */
const AHEAD = { ...systemClock, nowMs: () => systemClock.nowMs() + 180_000 };
/** At once, but for the observations that it takes. */
const LIVE_EVICTION = {
  flags: { liveEviction: true, probeNodes: true, probeRuntimeClassName: "nvidia" },
  liveEviction: { intervalMs: 1_000, minimumStayMs: 1_000, cooldownMs: 5_000 },
};
/** Of this machine: an endpoint may not be in the loopback range. */
const ADDRESS = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === "IPv4" && !internal)?.address;

describe.skipIf(why !== undefined || ADDRESS === undefined)(
  `rollouts in pods (${why ?? "simulated nodes"})`,
  () => {
    let bench: Bench;
    let engine: Server;
    /** What every pod answers. Undefined: an error. */
    let inFlight: number | undefined = 0;

    beforeAll(async () => {
      engine = createServer((_, response) => {
        response.statusCode = inFlight === undefined ? 503 : 200;
        response.end(`llamacpp:requests_processing ${inFlight}\nllamacpp:requests_deferred 0\n`);
      }).listen(0, ADDRESS);
      await once(engine, "listening");
      bench = await startBench({ nodes: [{ name: "cpu-1" }], ...LIVE_EVICTION, log: LOG, clock: AHEAD });
      for (const one of priorityClasses()) await bench.apply(one);
      await createNamespaceWithCache(bench, NS);
      await bench.model(NS, "tiny", { accelerator: "cpu" });
    });
    afterAll(async () => {
      engine?.close();
      await bench?.[Symbol.asyncDispose]();
    });

    const until = (name: string, expected: object) =>
      bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
    const observer = createObserver(NS, () => bench);
    const { get, see, podsOf, seePods, seeEvent, uidsOf, nodesOf, statusesSince, watchAvailable } = observer;
    const patch = (what: string, change: object) => bench.objects.patch(NS, what, change);
    const metalbridge = async (...args: string[]) => {
      const end = await runProgram([...args, "-n", NS], bench.cluster);
      expect(end).toMatchObject({ code: 0 });
      return end.stdout;
    };
    /** To the controller, as the chart does with an option. */
    const grant = async (kind: "ClusterRole" | "Role", name: string, rule: object) => {
      const apiVersion = "rbac.authorization.k8s.io/v1";
      const metadata = { name, namespace: kind === "Role" ? NAMESPACE_SYSTEM : undefined };
      const account = { kind: "ServiceAccount", name: "metalbridge-controller", namespace: NAMESPACE_SYSTEM };
      await bench.apply({ apiVersion, kind, metadata, rules: [rule] });
      const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind, name };
      await bench.apply({ apiVersion, kind: `${kind}Binding`, metadata, roleRef, subjects: [account] });
    };
    const apply = (name: string, spec: object, script: Parameters<typeof scriptAnnotations>[0] = {}) => {
      const { port } = engine.address() as AddressInfo;
      const podAnnotations = scriptAnnotations({ podIP: ADDRESS ?? "", ...script });
      return bench.apply(inferenceService(NS, name, { containerPort: port, podAnnotations, ...spec }));
    };

    test("a change waits until the old pods are idle, scales meanwhile, and is forced by its limit", async () => {
      inFlight = 0;
      await apply("idle", { replicas: 2, rolloutPolicy: { waitForIdle: true } });
      await until("idle", { phase: "Ready", ready: "2/2" });
      const before = await uidsOf("idle");
      inFlight = 1;
      await patch("isvc/idle", { spec: { contextSize: 2048 } });
      const { status } = await until("idle", { phase: "Progressing", reason: "PodsBusy", readyReplicas: 2 });
      expect(status?.message).toMatch(/2 of 2 old pods have requests in flight; they are replaced at 20\S+Z/);
      const deferred = status?.conditions?.find(({ type }) => type === "RolloutDeferred");
      expect(deferred).toMatchObject({ status: "True", reason: "PodsBusy" });
      await patch("isvc/idle", { spec: { replicas: 3 } });
      await until("idle", { reason: "PodsBusy", ready: "3/3", updatedReplicas: 0 });
      expect(await uidsOf("idle")).toEqual(expect.arrayContaining(before));
      inFlight = undefined;
      await until("idle", { phase: "Progressing", reason: "IdleCheckFailed" });
      inFlight = 0;
      await until("idle", { phase: "Ready", ready: "3/3", updatedReplicas: 3 });
      const { metadata, spec } = await get<Deployment>("deployment/idle");
      expect(spec.paused).toBeUndefined();
      expect(metadata.annotations).not.toHaveProperty("metalbridge.dev/waiting-since");
      expect(await uidsOf("idle")).not.toEqual(expect.arrayContaining(before.slice(0, 1)));

      inFlight = 1;
      await patch("isvc/idle", {
        spec: { contextSize: 8192, rolloutPolicy: { waitForIdle: true, idleTimeoutSeconds: 3 } },
      });
      await seeEvent(/^IdleTimeoutExceeded: /m);
      await until("idle", { phase: "Ready", ready: "3/3", updatedReplicas: 3 });

      inFlight = 0;
      expect(await metalbridge("rollout", "history", "idle")).toMatch(/contextSize 2048 -> 8192/);
      await metalbridge("rollout", "undo", "idle");
      expect(await metalbridge("rollout", "status", "idle")).toMatch(
        /3 of 3 replicas of revision \w+ answer/,
      );
      expect((await bench.service(NS, "idle")).spec.contextSize).toBe(2048);
      await seePods("idle", (pods) => expect(pods).toHaveLength(3));
      expect(await metalbridge("describe", "idle")).toMatch(/^Pods\n.*\n(.*\n)* {2}idle-\S+ +Ready +cpu-1/m);
    });

    test("pods of a certain age are replaced once they are idle, without fewer ready pods", async () => {
      inFlight = 1;
      await apply("aged", { replicas: 2, maxPodLifetimeIdleTimeoutSeconds: 600 });
      await until("aged", { phase: "Ready", ready: "2/2" });
      const before = await uidsOf("aged");
      const leastAvailable = await watchAvailable("aged", 2);
      await patch("isvc/aged", { spec: { maxPodLifetimeSeconds: 1 } });
      await until("aged", { phase: "Progressing", reason: "PodsBusy", ready: "2/2" });
      expect(await uidsOf("aged")).toEqual(before);
      // The wait that has begun ends as asked; the next pods live on.
      await patch("isvc/aged", { spec: { maxPodLifetimeSeconds: 86_400 } });
      inFlight = 0;
      await until("aged", { phase: "Ready", ready: "2/2", updatedReplicas: 2 });
      expect((await uidsOf("aged")).filter((uid) => before.includes(uid))).toEqual([]);
      expect(await leastAvailable()).toBeGreaterThanOrEqual(2);
      await see<Deployment>("deployment/aged", ({ spec: { strategy } }) =>
        expect(strategy).toMatchObject({ rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }),
      );
    });

    test("a pod that loads is protected from eviction until it is ready", async () => {
      await apply("loads", { disruption: {} }, { outcome: "never-ready" });
      // Allowed only once the disruption controller has seen the pod, and refused then.
      await see<{ spec: object; status?: object }>("pdb/loads", (budget) => {
        expect(budget.spec).toMatchObject({ maxUnavailable: 0 });
        expect(budget.status).toMatchObject({ expectedPods: 1 });
      });
      const [name] = (await podsOf("loads")).map(({ metadata }) => metadata.name);
      const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NS } };
      const refused = await bench.connection.request({
        method: "POST",
        path: `/api/v1/namespaces/${NS}/pods/${name}/eviction`,
        body: JSON.stringify(eviction),
        timeoutMs: 60_000,
      });
      expect(refused).toMatchObject({ error: { message: expect.stringMatching(/disruption budget/) } });
      await patch(`pod/${name}`, { metadata: { annotations: scriptAnnotations({ outcome: "ready" }) } });
      await until("loads", { phase: "Ready" });
      await see<KubeObject[]>("pdb", (items) =>
        expect(items.map(({ metadata }) => metadata.name)).not.toContain("loads"),
      );
    });

    test("placement.mode Auto keeps pods off nodes that are too small, no score replaces a pod, and live eviction moves one only where there is room", async () => {
      const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
      await bench.model(NS, "qwen", { accelerator: "cpu", gib: 5, source });
      await bench.addNode({ name: "small-1", capacity: { memory: "2Gi" } });
      const scored = (name: string, reason: string, message: RegExp) =>
        bench.serviceUntil(NS, name, ({ status }) => {
          const condition = getCondition(status?.conditions, "NodesScored");
          expect(condition).toMatchObject({ reason, message: expect.stringMatching(message) });
        });
      await apply("auto", { modelRef: "qwen", placement: { mode: "Auto" } });
      await until("auto", { phase: "Ready" });
      await scored(
        "auto",
        "NodesScored",
        /^prefers: cpu-1 \(0\.\d\d: .* .*; kept out: small-1 \(offers 2 GiB of the/,
      );
      const made = await get<Deployment>("deployment/auto");
      expect(made.spec.template.spec.affinity).toBeUndefined();
      const [pod] = await podsOf("auto");
      expect(JSON.stringify(pod?.spec.affinity)).toContain('"operator":"NotIn","values":["small-1"]');
      const before = await uidsOf("auto");

      await bench.addNode({ name: "cpu-2", capacity: { memory: "64Gi" } });
      await scored("auto", "NodesScored", /cpu-2 \(0\.\d\d: /);
      expect(await uidsOf("auto")).toEqual(before);
      expect((await get<Deployment>("deployment/auto")).metadata.generation).toBe(made.metadata.generation);

      const { metadata } = await bench.service(NS, "auto");
      await patch("isvc/auto", { spec: { contextSize: 2048 } });
      await seePods("auto", (pods) => {
        const newest = pods.find(({ metadata }) => !before.includes(metadata.uid ?? ""));
        expect(JSON.stringify(newest?.spec.affinity)).toContain('"cpu-2"');
      });

      await until("auto", { phase: "Ready", updatedReplicas: 1 });
      const [first] = await statusesSince("auto", metadata.resourceVersion);
      expect(first?.phase).toBe("Progressing");
      await seePods("auto", (pods) => {
        expect(pods).toHaveLength(1);
        expect(pods.map(({ metadata }) => metadata.uid)).not.toEqual(before);
      });
      const [from] = await nodesOf("auto");
      const [own] = await podsOf("auto");
      await poll(() => expect(observed).toContain(own?.metadata.name));
      const to = from === "cpu-1" ? "cpu-2" : "cpu-1";
      await bench.apply({
        apiVersion: "policy/v1",
        kind: "PodDisruptionBudget",
        metadata: { name: "mine", namespace: NS },
        spec: { minAvailable: 1, selector: { matchLabels: { "metalbridge.dev/service": "auto" } } },
      });
      // As the chart grants it with controller.liveEviction.
      await grant("ClusterRole", "evict", {
        apiGroups: [""],
        resources: ["pods/eviction"],
        verbs: ["create"],
      });
      await bench.objects.patch("", `node/${from}`, { status: { allocatable: { memory: "1Gi" } } }, "status");
      await seeEvent(/^MoveBlocked: auto-\S+ stays on .*disruption budget/m);
      expect(await nodesOf("auto")).toEqual([from]);
      // Of a priority that the scheduler does not preempt.
      const resources = { requests: { memory: to === "cpu-1" ? "127Gi" : "63Gi" } };
      const containers = [{ name: "one", image: "registry.example/one", resources }];
      await bench.apply({
        apiVersion: "v1",
        kind: "Pod",
        metadata: { name: "filler", namespace: NS },
        spec: { nodeName: to, priorityClassName: "system-node-critical", containers },
      });
      const settled = (await get<Deployment>("deployment/auto")).spec;
      await bench.objects.remove(NS, "pdb/mine");
      await seeEvent(/^FitnessFell: /m);
      await seeEvent(
        /^MoveBlocked: no other node fits the pod, so it stays on its node: .*Insufficient memory/m,
      );
      await see<Deployment>("deployment/auto", ({ spec: { template, strategy } }) =>
        expect({ template, strategy }).toEqual({ template: settled.template, strategy: settled.strategy }),
      );
      // The pod for which there was no room goes after the template has been put back.
      await seePods("auto", (pods) => {
        expect(pods.map(({ spec }) => spec.nodeName)).toEqual([from]);
        expect(pods.map(({ metadata }) => metadata.uid)).toEqual([own?.metadata.uid]);
      });
      await bench.objects.remove(NS, "pod/filler");
      await seePods("auto", (pods) => expect(pods.map(({ spec }) => spec.nodeName)).toEqual([to]));

      await patch("isvc/auto", { spec: { nodeSelector: { "kubernetes.io/hostname": "cpu-1" } } });
      await scored("auto", "ChosenByUser", /^spec.nodeSelector or spec.affinity chooses/);
      expect((await get<Deployment>("deployment/auto")).spec.template.spec.affinity).toBeUndefined();
      await bench.objects.remove(NS, "isvc/auto");

      await bench.model(NS, "qwen-gpu", { accelerator: "cuda", gib: 5, source, gpus: 1 });
      await bench.addNode({ name: "gpu-1", capacity: { "nvidia.com/gpu": "1" } });
      await apply("auto-gpu", { modelRef: "qwen-gpu", placement: { mode: "Auto" } });
      await scored(
        "auto-gpu",
        "NodesUnknown",
        /^left to the scheduler: gpu-1 \(no label has the memory size/,
      );
      const reportOf = (totalBytes: number, memoryBytes: number) => {
        const gpus = [{ vendor: "nvidia", name: "NVIDIA L4", memoryBytes, count: 1, unified: false }];
        const lists = { runtimes: [], models: [], leftOut: [] };
        return JSON.stringify({ memory: { totalBytes }, cpu: {}, gpus, ...lists });
      };
      const publish = (totalBytes: number, memoryBytes: number, node = "gpu-1") => {
        const report = {
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: {
            name: nodeReportName(node),
            namespace: NAMESPACE_SYSTEM,
            labels: { [LABEL_NODE_REPORT]: "true" },
          },
          data: { [NODE_REPORT_KEY]: reportOf(totalBytes, memoryBytes) },
        };
        return bench.apply(report);
      };
      await publish(128 * 2 ** 30, 24 * 2 ** 30);
      await scored("auto-gpu", "NodesScored", /^prefers: gpu-1 \(0\.\d\d: /);
      await publish(2 ** 30, 24 * 2 ** 30);
      await scored("auto-gpu", "NodesUnknown", /its node report says 1.00 GiB of memory, its Node 128 GiB/);

      // As the chart grants it with controller.probeNodes; without it, the first has failed.
      await grant("Role", "probe", { apiGroups: [""], resources: ["pods"], verbs: ["create", "delete"] });
      const reports = { apiGroups: [""], resources: ["configmaps"], verbs: ["create", "patch"] };
      await grant("Role", "probe-reports", reports);
      const nvidia = { apiVersion: "node.k8s.io/v1", kind: "RuntimeClass", handler: "nvidia" };
      await bench.apply({ ...nvidia, metadata: { name: "nvidia" } });
      await bench.addNode({ name: "gpu-2", capacity: { "nvidia.com/gpu": "1" } });
      const probe = "pod/metalbridge-probe-gpu-2";
      await bench.objects.until(NAMESPACE_SYSTEM, probe, (pod: Pod | undefined) =>
        expect(pod?.status?.phase).toBe("Running"),
      );
      const message = reportOf(128 * 2 ** 30, 48 * 2 ** 30);
      const terminated = { exitCode: 0, reason: "Completed", message };
      const one = { name: "probe", image: "i", imageID: "i", ready: false, restartCount: 0 };
      const status = { phase: "Succeeded", containerStatuses: [{ ...one, state: { terminated } }] };
      await bench.objects.patch(NAMESPACE_SYSTEM, probe, { status }, "status");
      await scored("auto-gpu", "NodesScored", /^prefers: gpu-2 \(0\.\d\d: /);
      await bench.objects.until(NAMESPACE_SYSTEM, probe, (pod) => expect(pod).toBeUndefined());

      // A Recreate would stop the pod that serves before another is Ready.
      const whole = 128 * 2 ** 30;
      for (const node of ["gpu-1", "gpu-3"]) await publish(whole, 24 * 2 ** 30, node);
      await bench.addNode({ name: "gpu-3", capacity: { "nvidia.com/gpu": "1" } });
      const isObserved = async () => {
        const names = (await podsOf("auto-gpu")).map(({ metadata }) => metadata.name);
        await poll(() => expect(observed).toEqual(expect.arrayContaining(names)));
      };
      await until("auto-gpu", { phase: "Ready", ready: "1/1" });
      await isObserved();
      const [fallen = ""] = await nodesOf("auto-gpu");
      const leastAvailable = await watchAvailable("auto-gpu", 1);
      await publish(whole, 2 ** 30, fallen);
      await seePods("auto-gpu", (pods) =>
        expect(pods.map(({ spec }) => spec.nodeName)).toEqual([expect.not.stringMatching(fallen)]),
      );
      await see<Deployment>("deployment/auto-gpu", ({ metadata, spec }) => {
        expect(metadata.annotations).not.toHaveProperty("metalbridge.dev/node-move");
        expect(spec.strategy).toEqual({ type: "Recreate" });
      });
      await until("auto-gpu", { phase: "Ready", ready: "1/1", updatedReplicas: 1 });
      expect(await leastAvailable()).toBe(1);

      await publish(whole, 24 * 2 ** 30, fallen);
      await patch("isvc/auto-gpu", { spec: { replicas: 2 } });
      await until("auto-gpu", { phase: "Ready", ready: "2/2" });
      await isObserved();
      const both = await uidsOf("auto-gpu");
      const [next = ""] = await nodesOf("auto-gpu");
      await publish(whole, 2 ** 30, next);
      await seeEvent(
        new RegExp(`^MoveBlocked: auto-gpu-\\S+ stays on ${next}: .* only services with a single pod`, "m"),
      );
      expect(await uidsOf("auto-gpu")).toEqual(both);
    });
  },
);
