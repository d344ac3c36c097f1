/** Flavors by DeviceClass, with the real API server, controller and scheduler: the test publishes the devices of a node. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import type { ResourceClaimTemplate } from "../../src/kube/workload-objects.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import { deviceClassOfSize, devicesOf } from "../../test/bed/simulated-devices.ts";
import {
  type Bench,
  createNamespaceWithCache,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { createObserver } from "./fixtures/observe.ts";

const why = whyNoSimulatedNodes();
const NS = "devices";
const LARGE = { name: "large", deviceClass: "large.example.com" };
const SMALL = { name: "small", deviceClass: "small.example.com" };

describe.skipIf(why !== undefined)(`claims for devices (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;
  const { get, see, uidsOf } = createObserver(NS, () => bench);

  const createClass = (size: string) => bench.apply(deviceClassOfSize(size));

  beforeAll(async () => {
    bench = await startBench({ nodes: [{ name: "devices-1" }] });
    await createNamespaceWithCache(bench, NS);
    await createClass("large");
    await createClass("small");
    await bench.apply(devicesOf("devices-1", { a: "large", b: "small", c: "small" }));
    await bench.model(NS, "tiny", { flavors: [LARGE, SMALL], isOnVolume: true });
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const until = (expected: object) =>
    bench.serviceUntil(NS, "chat", ({ status }) => expect(status).toMatchObject(expected));
  const scale = (replicas: number) => bench.objects.patch(NS, "isvc/chat", { spec: { replicas } });
  const templates = async () =>
    (await get<{ items: ResourceClaimTemplate[] }>("resourceclaimtemplates")).items.map(
      ({ metadata }) => metadata.name,
    );

  test("pods get the devices of the first flavor that has free ones, and the status says why not the earlier ones", async () => {
    await bench.apply(inferenceService(NS, "chat"));
    await until({ phase: "Ready", flavor: { name: "large" } });
    expect(await templates()).toEqual([expect.stringMatching(/^chat-flavors-/)]);
    await scale(2);
    const { status } = await until({
      phase: "Ready",
      ready: "2/2",
      flavor: {
        name: "small",
        skipped: [{ name: "large", reason: "FlavorFull", message: expect.stringMatching(/no free devices/) }],
      },
    });
    expect(getCondition(status?.conditions, "Placed")?.message).toMatch(/flavor\/small: [bc] of gpu/);
    expect(status?.flavor?.available).toBeUndefined();
  });

  test("a DeviceClass that is removed replaces no pod; a pod that waits for it says what to do", async () => {
    const before = await uidsOf("chat");
    await bench.objects.remove("", "deviceclass/small.example.com");
    await scale(3);
    const { status } = await until({ phase: "WaitingForGPU", reason: "DeviceClassMissing" });
    expect(status?.message).toMatch(
      /DeviceClass small.example.com of flavor small does not exist; .*To do: create the DeviceClass again/,
    );
    expect(status?.waitingFor).toBe("DeviceClass small.example.com");
    expect(await uidsOf("chat")).toEqual(expect.arrayContaining(before));
    await createClass("small");
    await until({ phase: "Ready", ready: "3/3" });
    expect(await uidsOf("chat")).toEqual(expect.arrayContaining(before));
  });

  test("other flavors get another template, and the old one is removed once no pod uses it", async () => {
    await scale(1);
    await until({ phase: "Ready", ready: "1/1" });
    const [old] = await templates();
    await bench.objects.patch(NS, "model/tiny", { spec: { flavors: [SMALL, LARGE] } });
    await see<ResourceClaimTemplate[]>("resourceclaimtemplates", (items) =>
      expect(items.map(({ metadata }) => metadata.name)).toEqual([expect.not.stringMatching(`^${old}$`)]),
    );
    await until({ phase: "Ready", ready: "1/1", flavor: { name: "small" } });
    await bench.objects.remove(NS, "isvc/chat");
    expect(await templates()).toEqual([]);
  });

  test("a drained Mac's service gets the first free devices, and one that finds none gets the flavor after them", async () => {
    const mac = { name: "mac", hostSelector: { matchLabels: { class: "studio" } } };
    const plugin = { name: "plugin", limits: { "nvidia.com/gpu": 1 } };
    await bench.agent("studio-1", { labels: { class: "studio" } });
    await bench.addNode({ name: "gpu-1", capacity: { "nvidia.com/gpu": "1" } });
    await bench.model(NS, "mixed", { flavors: [mac, LARGE, SMALL, plugin], isOnVolume: true });
    const untilMixed = (name: string, flavor: object) =>
      bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject({ phase: "Ready", flavor }));
    await bench.apply(inferenceService(NS, "one", { modelRef: "mixed" }));
    await untilMixed("one", { name: "mac" });
    await bench.objects.patch("", "host/studio-1", { spec: { drain: true } });
    const drained = { name: "mac", reason: "FlavorFull", message: "studio-1: draining" };
    await untilMixed("one", { name: "large", skipped: [drained] });

    const withoutDevices = (name: string) => ({ name, reason: "FlavorFull" });
    await bench.apply(inferenceService(NS, "two", { modelRef: "mixed" }));
    await untilMixed("two", { name: "small", skipped: [drained, withoutDevices("large")] });
    await bench.restartController();
    const before = [...(await uidsOf("one")), ...(await uidsOf("two"))];
    await bench.apply(inferenceService(NS, "three", { modelRef: "mixed", flavors: ["large", "plugin"] }));
    await untilMixed("three", { name: "plugin", skipped: [withoutDevices("large")] });
    expect([...(await uidsOf("one")), ...(await uidsOf("two"))]).toEqual(before);
  });
});
