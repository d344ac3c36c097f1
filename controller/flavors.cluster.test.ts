/** Flavors of a Model with the real API server, controller and scheduler, a scripted Mac, and kwok's nodes with GPUs. */
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { InferenceServiceStatus } from "../src/api/inference-service/index.ts";
import { whyNoSimulatedNodes } from "../test/bed/kwok.ts";
import {
  type Bench,
  createNamespaceWithCache,
  gpuNode,
  inferenceService,
  startBench,
} from "../test/controller/bench.ts";
import { createObserver } from "./pods/fixtures/observe.ts";

const why = whyNoSimulatedNodes();
const WAIT = { timeout: 60_000, interval: 100 };
const NS = "flavors";
const gpu = (product: string, count: number) => ({
  nodeSelector: { "nvidia.com/gpu.product": product },
  limits: { "nvidia.com/gpu": count },
});
const MAC = { name: "mac", hostSelector: { matchLabels: { class: "studio" } } };
const L40S = { name: "l40s", ...gpu("NVIDIA-L40S", 1) };
const A10 = { name: "two-a10", ...gpu("NVIDIA-A10", 2), params: { args: ["--verbose"] } };

describe.skipIf(why !== undefined)(`flavors (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({
      liveEviction: { intervalMs: 1_000, minimumStayMs: 1_000 },
      nodes: [gpuNode("l40s-1", "NVIDIA-L40S", 45, 1), gpuNode("a10-1", "NVIDIA-A10", 24, 4)],
    });
    await createNamespaceWithCache(bench, NS);
    await bench.agent("studio-1", { labels: { class: "studio" } });
    await bench.model(NS, "tiny", { flavors: [MAC, L40S, A10], isOnVolume: true });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const { podsOf, nodesOf, uidsOf } = createObserver(NS, () => bench);
  const patch = (what: string, change: object) => bench.objects.patch(NS, what, change);
  const drain = (isDrained: boolean) => patch("mbhost/studio-1", { spec: { drain: isDrained } });
  const remove = (...names: readonly string[]) =>
    bench.objects.remove(NS, ...names.map((name) => `isvc/${name}`));
  const until = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
  const hostsOf = async () => (await bench.replicas(NS)).map(({ spec }) => spec.template.hostName);
  const eventsOf = async (name: string) => {
    const { items } = await bench.objects.get(NS, "events");
    return (items as { reason: string; message: string; involvedObject: { name: string } }[])
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ reason, message }) => `${reason}: ${message}`);
  };
  const chosen = (status: InferenceServiceStatus | undefined) =>
    getCondition(status?.conditions, "FlavorChosen");

  test("a service goes to the Mac, to a GPU when the Mac is drained, and back only with a rollout", async () => {
    await bench.apply(inferenceService(NS, "chat"));
    const { status: studio } = await until("chat", {
      phase: "Ready",
      on: "Hosts",
      flavor: { name: "mac", reason: expect.stringMatching(/^preferred: room on studio-1$/) },
    });
    expect(studio?.flavor?.skipped).toBeUndefined();
    expect(chosen(studio)).toMatchObject({ status: "True", reason: "FlavorPreferred" });
    expect(await podsOf("chat")).toEqual([]);

    await drain(true);
    const { status: fallback } = await until("chat", {
      phase: "Ready",
      on: "Pods",
      flavor: {
        name: "l40s",
        reason: "room on l40s-1",
        skipped: [{ name: "mac", reason: "FlavorFull", message: "studio-1: draining" }],
      },
    });
    expect(chosen(fallback)).toMatchObject({
      status: "True",
      reason: "FlavorFallback",
      message: "l40s: room on l40s-1; not used: mac: studio-1: draining",
    });
    expect(await nodesOf("chat")).toEqual(["l40s-1"]);
    await vi.waitFor(async () => expect(await hostsOf()).toEqual([]), WAIT);
    const before = await uidsOf("chat");

    await drain(false);
    const { status: free } = await until("chat", { flavor: { name: "l40s", available: "mac" } });
    expect(chosen(free)).toMatchObject({ status: "True", reason: "FlavorAvailable" });
    expect(await uidsOf("chat")).toEqual(before);
    expect(await hostsOf()).toEqual([]);

    await patch("isvc/chat", { spec: { contextSize: 2_048 } });
    await until("chat", { phase: "Ready", on: "Hosts", flavor: { name: "mac" } });
    expect(await hostsOf()).toEqual(["studio-1"]);
    await vi.waitFor(async () => expect(await podsOf("chat")).toEqual([]), WAIT);
    const events = await eventsOf("chat");
    expect(events).toContainEqual(
      expect.stringMatching(/^FlavorPreferred: mac: preferred: room on studio-1$/),
    );
    expect(events).toContainEqual(
      expect.stringMatching(/^FlavorFallback: l40s: room on l40s-1; not used: mac: studio-1: draining$/),
    );
    expect(events).toContainEqual(expect.stringMatching(/^FlavorPreferred: mac: .*taken with this rollout$/));
    await remove("chat");
  });

  test("a service narrows the flavors, and a flavor that has no GPUs left is followed by the next one", async () => {
    await bench.apply(inferenceService(NS, "first", { flavors: ["two-a10", "l40s"] }));
    await until("first", { phase: "Ready", flavor: { name: "l40s" } });
    await bench.apply(inferenceService(NS, "second", { flavors: ["two-a10", "l40s"] }));
    await until("second", {
      phase: "Ready",
      flavor: {
        name: "two-a10",
        skipped: [{ name: "l40s", reason: "FlavorFull", message: "l40s-1: its GPUs are in use" }],
      },
    });
    const [pod] = await podsOf("second");
    expect(pod?.spec.nodeName).toBe("a10-1");
    const [engine] = pod?.spec.containers ?? [];
    expect(engine?.resources?.limits).toEqual({ "nvidia.com/gpu": "2" });
    expect(engine?.args).toContain("--verbose");
    await remove("first", "second");
  });

  test("a pod whose volume is not bound yet keeps its flavor", async () => {
    const ns = "unbound";
    const spec = { storageClassName: "slow", accessModes: ["ReadWriteMany"] };
    const storage = { storage: "1Gi" };
    const storageKind = { apiVersion: "storage.k8s.io/v1", kind: "StorageClass" };
    await bench.objects.createNamespace(ns);
    await bench.objects.apply(
      { ...storageKind, metadata: { name: "slow" }, provisioner: "slow.example.com" },
      {
        apiVersion: "v1",
        kind: "PersistentVolumeClaim",
        metadata: { name: "metalbridge-model-cache", namespace: ns },
        spec: { ...spec, resources: { requests: storage } },
      },
    );
    await bench.model(ns, "tiny", { flavors: [L40S, A10], isOnVolume: true });
    await bench.apply(inferenceService(ns, "chat"));
    const flavor = { name: "l40s", reason: "preferred: room on l40s-1" };
    const reason = "UnbindableModelCache";
    await bench.serviceUntil(ns, "chat", ({ status }) => expect(status).toMatchObject({ reason, flavor }));
    const hostPath = { path: "/models" };
    const volume = { apiVersion: "v1", kind: "PersistentVolume", metadata: { name: "slow-1" } };
    await bench.objects.apply({ ...volume, spec: { ...spec, capacity: storage, hostPath } });
    await bench.serviceUntil(ns, "chat", ({ status }) =>
      expect(status).toMatchObject({ phase: "Ready", flavor }),
    );
    await bench.objects.remove(ns, "isvc/chat");
    await vi.waitFor(async () => {
      const { items } = await bench.objects.get(ns, "pods");
      expect(items).toEqual([]);
    }, WAIT);
  });

  test("unknown, contradictory and unmatched flavors are named with their reasons", async () => {
    const odd = { name: "h200", ...gpu("NVIDIA-H200", 1) };
    await bench.model(NS, "odd", { flavors: [odd, A10], isOnVolume: true });
    const spec = { modelRef: "odd", resources: { gpu: 2 } };
    await bench.apply(inferenceService(NS, "odd", { ...spec, flavors: ["h200", "two-a10", "h100"] }));
    const { status } = await until("odd", {
      phase: "Ready",
      flavor: {
        name: "two-a10",
        skipped: [
          {
            name: "h200",
            reason: "FlavorExcluded",
            message: "its limits request 1 of the GPUs, and spec.resources.gpu of the service 2",
          },
        ],
      },
    });
    expect(chosen(status)).toMatchObject({
      status: "False",
      reason: "FlavorNotFound",
      message: expect.stringMatching(
        /^Model odd has no flavor h100, which spec\.flavors names; it has h200, two-a10; two-a10: room/,
      ),
    });

    await bench.apply(inferenceService(NS, "none", { modelRef: "odd", flavors: ["h200"] }));
    const { status: pending } = await bench.serviceUntil(NS, "none", ({ status: now }) =>
      expect(chosen(now)).toMatchObject({
        status: "False",
        reason: "NoFlavorFits",
        message: expect.stringMatching(
          /h200: no flavor has room; .* no node has nvidia\.com\/gpu\.product=NVIDIA-H200/,
        ),
      }),
    );
    expect(pending?.phase).not.toBe("Ready");

    await bench.apply(inferenceService(NS, "lost", { modelRef: "odd", flavors: ["h100"] }));
    await until("lost", { phase: "Failed", reason: "FlavorNotFound" });
  });

  test("live eviction takes a preferred flavor that has become free, without a rollout", async () => {
    await bench.apply(inferenceService(NS, "first", { flavors: ["l40s"] }));
    await until("first", { phase: "Ready", flavor: { name: "l40s" } });
    await bench.apply(inferenceService(NS, "moves", { flavors: ["l40s", "two-a10"] }));
    await until("moves", { phase: "Ready", flavor: { name: "two-a10" } });
    const before = await uidsOf("moves");
    await remove("first");
    await vi.waitFor(async () => expect(await podsOf("first")).toEqual([]), WAIT);
    await patch("isvc/moves", { metadata: { annotations: { touched: "yes" } } });
    await until("moves", { flavor: { name: "two-a10", available: "l40s" } });
    expect(await uidsOf("moves")).toEqual(before);

    await bench.restartController(undefined, { liveEviction: true });
    await until("moves", { phase: "Ready", flavor: { name: "l40s" } });
    expect(await nodesOf("moves")).toEqual(["l40s-1"]);
    expect(await eventsOf("moves")).toContainEqual(
      expect.stringMatching(/^FlavorPreferred: l40s: preferred: room on l40s-1, taken by live eviction$/),
    );
    await remove("moves");
  });
});
