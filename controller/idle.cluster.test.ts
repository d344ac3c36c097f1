/** Services with spec.idle on scripted hosts: unloaded without requests, woken by demand Leases, and taking turns on one host. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { getCondition } from "../src/api/conditions.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { demand } from "../test/bed/demand.ts";
import { ENGINE_PORT, reportReplica } from "../test/bed/scripted-host.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const NS = "idle";
const HOSTS = ["mac-a", "mac-b", "mac-c"];
const WAIT = { timeout: 60_000, interval: 20 };
/** Hosts are unreachable after 40 s without a renewal that the controller has seen. */
const STEP_MS = 15_000;

const clock = createSteppedClock();
let bench: Bench;
let agents: AgentSide[];
/** Requests in flight of each engine by service. */
const load = new Map<string, number>();

const statusOf = ({ spec }: InferenceReplica): InferenceReplica["status"] => {
  const requestsInFlight = load.get(spec.template.serviceName) ?? 0;
  return {
    ...({ phase: "Ready", reason: "EngineReady", message: "", port: ENGINE_PORT, pid: 4711 } as const),
    performance: requestsInFlight === 0 ? undefined : { requestsInFlight },
  };
};

/** Also renews while a test waits. */
const AGENT = { statusOf, renewEveryMs: 2_000 };

beforeAll(async () => {
  bench = await startBench({ clock });
  await bench.cluster.kubectl(["create", "namespace", NS]);
  await bench.model(NS, "tiny", { gib: 4 });
  // Each has memory for one replica.
  agents = await Promise.all(HOSTS.map((host) => bench.agent(host, { ...AGENT, budgetGib: 7 })));
}, 120_000);

afterAll(() => bench?.[Symbol.asyncDispose]());

/** Lets time pass as hosts renew their Leases. */
async function pass(seconds: number): Promise<void> {
  for (let left = seconds * 1_000; left > 0; left -= STEP_MS) {
    clock.advance(Math.min(left, STEP_MS));
    // Their own timers renew too.
    for (const agent of agents) await vi.waitFor(() => agent.renew(), WAIT);
  }
}

const idleOn = (host: string, name: string, idle: object, more: object = {}) =>
  inferenceService(NS, name, {
    idle: { afterMinutes: 5, minimumResidencySeconds: 30, ...idle },
    placement: { hosts: [host] },
    ...more,
  });
const ask = (name: string) => demand(bench.client, NS, name, clock.nowMs());
const replicasOf = async (name: string) =>
  (await bench.replicas(NS)).filter(({ spec }) => spec.template.serviceName === name);
const phaseIs = (name: string, phase: string) =>
  bench.serviceUntil(NS, name, ({ status }) => expect(status?.phase).toBe(phase));
const reasonOf = ({ status }: InferenceService) => getCondition(status?.conditions, "Idle")?.reason;
/** What its agent reports now. */
const report = async (name: string) => {
  for (const replica of await replicasOf(name))
    await vi.waitFor(
      async () => expect(await reportReplica(bench.client, replica, statusOf(replica))).toBe(true),
      WAIT,
    );
};
const remove = async (...names: readonly string[]) => {
  await bench.cluster.kubectl(["delete", "isvc", "-n", NS, ...names, "--timeout=60s"]);
};

/** Until it is idle and nothing of it is left. */
async function untilUnloaded(name: string): Promise<InferenceService> {
  const service = await phaseIs(name, "Idle");
  await vi.waitFor(async () => expect(await replicasOf(name)).toEqual([]), WAIT);
  return service;
}

test("a service without requests is unloaded, shown as Idle, and loaded again once by many renewals", async () => {
  await bench.apply(inferenceService(NS, "chat", { idle: { afterMinutes: 5 } }));
  await phaseIs("chat", "Ready");
  const [first] = await replicasOf("chat");
  await pass(200);
  await ask("chat");
  await pass(200);
  const awake = await bench.service(NS, "chat");
  expect(awake.status).toMatchObject({ phase: "Ready", idle: { state: "Awake" } });
  expect(reasonOf(awake)).toBe("Loaded");
  await pass(120);

  const { status } = await untilUnloaded("chat");
  expect(status).toMatchObject({
    reason: "Idle",
    ready: "0/0",
    idle: { state: "Idle", hosts: [first?.spec.template.hostName] },
  });
  expect(status?.message).toBe(
    "no request for 5 min; the next request through the gateway loads the replicas",
  );
  expect(getCondition(status?.conditions, "Degraded")?.status).toBe("False");
  expect(getCondition(status?.conditions, "Available")).toMatchObject({ status: "False", reason: "Idle" });
  const shown = await bench.cluster.kubectl(["get", "isvc", "chat", "-n", NS]);
  expect(shown).toMatch(/chat +Idle +0\/0/);

  const asked = performance.now();
  await Promise.all(Array.from({ length: 20 }, () => ask("chat")));
  await phaseIs("chat", "Ready");
  expect(performance.now() - asked).toBeLessThan(20_000);
  const [again, ...others] = await replicasOf("chat");
  expect(others).toEqual([]);
  expect(again?.metadata.uid).not.toBe(first?.metadata.uid);
  expect(again?.metadata.name).toBe(first?.metadata.name);
  expect(again?.spec.template.hostName).toBe(first?.spec.template.hostName);
  const events = await bench.cluster.kubectl(["get", "events", "-n", NS, "-o", "json"]);
  const reasons = (JSON.parse(events).items as { reason: string }[]).map(({ reason }) => reason);
  expect(reasons.filter((reason) => reason === "Waking")).toHaveLength(1);
  expect(reasons.filter((reason) => reason === "Idle")).toHaveLength(1);
  expect((await bench.service(NS, "chat")).status?.idle).not.toHaveProperty("hosts");
  await remove("chat");
});

test("two services that share a host take turns, and neither is unloaded while it has requests", async () => {
  await bench.apply(idleOn("mac-a", "one", {}));
  await phaseIs("one", "Ready");
  load.set("one", 2);
  await bench.apply(idleOn("mac-a", "two", {}));
  await phaseIs("two", "WaitingForCapacity");
  await report("one");
  await bench.serviceUntil(NS, "one", ({ status }) => expect(status?.performance?.requestsInFlight).toBe(2));
  await pass(60);
  expect((await bench.service(NS, "two")).status?.phase).toBe("WaitingForCapacity");
  expect((await bench.service(NS, "one")).status?.phase).toBe("Ready");

  load.delete("one");
  await report("one");
  await pass(60);
  const displaced = await phaseIs("one", "Idle");
  expect(displaced.status).toMatchObject({
    reason: "IdleForOthers",
    message: `unloaded for ${NS}/two, which needs the memory; the next request through the gateway loads the replicas`,
  });
  await phaseIs("two", "Ready");

  // It is wanted again at once, but the other one has just been loaded.
  await ask("one");
  const waking = await phaseIs("one", "WaitingForCapacity");
  expect(waking.status).toMatchObject({ idle: { state: "Waking" }, queuePosition: 1 });
  expect(waking.status?.message).toContain("mac-a");
  await pass(25);
  expect((await bench.service(NS, "two")).status?.phase).toBe("Ready");
  await pass(35);
  await phaseIs("two", "Idle");
  await phaseIs("one", "Ready");
  expect(await replicasOf("two")).toEqual([]);
  await remove("one", "two");
});

test("two services with constant requests take turns of minimumResidencySeconds", async () => {
  for (const name of ["left", "right"]) load.set(name, 1);
  await bench.apply(idleOn("mac-a", "left", {}));
  await phaseIs("left", "Ready");
  await bench.apply(idleOn("mac-a", "right", {}));
  await phaseIs("right", "WaitingForCapacity");
  await pass(120);
  // No request waits for the other one yet.
  expect((await bench.service(NS, "left")).status?.phase).toBe("Ready");
  for (const [waits, serves] of [
    ["right", "left"],
    ["left", "right"],
    ["right", "left"],
  ] as const) {
    await ask(waits);
    await bench.serviceUntil(NS, waits, ({ status }) => expect(status?.idle?.state).toBe("Waking"));
    await pass(15);
    expect((await bench.service(NS, serves)).status?.phase).toBe("Ready");
    await pass(30);
    await phaseIs(waits, "Ready");
    const given = await untilUnloaded(serves);
    expect(given.status?.reason).toBe("IdleForOthers");
  }
  for (const name of ["left", "right"]) load.delete(name);
  await remove("left", "right");
});

test("a service without spec.idle is never unloaded for one that wakes", async () => {
  await bench.apply(inferenceService(NS, "fixed", { placement: { hosts: ["mac-b"] } }));
  await phaseIs("fixed", "Ready");
  await bench.apply(idleOn("mac-b", "asks", {}));
  await phaseIs("asks", "WaitingForCapacity");
  await ask("asks");
  await pass(240);
  expect((await bench.service(NS, "fixed")).status?.phase).toBe("Ready");
  expect((await bench.service(NS, "asks")).status?.phase).toBe("WaitingForCapacity");
  await remove("fixed");
  await phaseIs("asks", "Ready");
  await remove("asks");
});

test("the least recently used of several services is unloaded", async () => {
  const agent = await bench.agent("mac-d", { ...AGENT, budgetGib: 12 });
  agents.push(agent);
  for (const name of ["older", "newer"]) await bench.apply(idleOn("mac-d", name, {}));
  for (const name of ["older", "newer"]) await phaseIs(name, "Ready");
  await pass(40);
  await ask("newer");
  await vi.waitFor(async () => {
    const { idle } = (await bench.service(NS, "newer")).status ?? {};
    expect(idle?.lastRequestTime).toBeDefined();
  }, WAIT);
  await pass(60);
  await bench.apply(idleOn("mac-d", "third", {}));
  await phaseIs("third", "Ready");
  expect((await bench.service(NS, "newer")).status?.phase).toBe("Ready");
  await untilUnloaded("older");
  await remove("older", "newer", "third");
});

test("a change of leader neither unloads a service, nor wakes an idle one, nor misses demand", async () => {
  await bench.apply(idleOn("mac-a", "kept", {}));
  await phaseIs("kept", "Ready");
  await ask("kept");
  await pass(200);
  await bench.restartController();
  await pass(200);
  expect((await bench.service(NS, "kept")).status?.phase).toBe("Ready");
  await pass(150);
  const before = await untilUnloaded("kept");

  await bench.restartController();
  const [again] = [await bench.service(NS, "kept")];
  expect(again?.status?.idle).toEqual(before.status?.idle);
  expect(await replicasOf("kept")).toEqual([]);

  await bench.stopController();
  await ask("kept");
  await bench.restartController();
  await phaseIs("kept", "Ready");
  await remove("kept");
});

test("an idle service follows its spec: scale, change, window, suspend, removal of spec.idle", async () => {
  await bench.apply(inferenceService(NS, "spec", { idle: { afterMinutes: 1, minimumResidencySeconds: 0 } }));
  await phaseIs("spec", "Ready");
  await pass(130);
  await untilUnloaded("spec");
  await bench.cluster.kubectl(["scale", "isvc/spec", "-n", NS, "--replicas=2"]);
  await bench.objects.patch(NS, "isvc/spec", { spec: { contextSize: 4096 } });
  await bench.serviceUntil(NS, "spec", ({ metadata, status }) =>
    expect(status).toMatchObject({ phase: "Idle", observedGeneration: metadata.generation }),
  );
  expect(await replicasOf("spec")).toEqual([]);

  await ask("spec");
  await bench.serviceUntil(NS, "spec", ({ status }) =>
    expect(status).toMatchObject({ phase: "Ready", ready: "2/2" }),
  );
  const contexts = (await replicasOf("spec")).map(({ spec }) => spec.template.engine.contextSize);
  expect(contexts).toEqual([4096, 4096]);
  await pass(130);
  await untilUnloaded("spec");

  const all = { keepWarm: [{ start: "00:00", end: "24:00" }] };
  await bench.objects.patch(NS, "isvc/spec", { spec: { replicas: 1, idle: all } });
  await phaseIs("spec", "Ready");
  await pass(200);
  const warm = await bench.service(NS, "spec");
  expect([warm.status?.phase, reasonOf(warm)]).toEqual(["Ready", "KeptWarm"]);

  await bench.objects.patch(NS, "isvc/spec", { spec: { idle: { keepWarm: null } } });
  await untilUnloaded("spec");
  await bench.objects.patch(NS, "isvc/spec", { spec: { suspend: true } });
  const suspended = await phaseIs("spec", "Suspended");
  expect(suspended.status?.idle).toBeUndefined();
  expect(reasonOf(suspended)).toBeUndefined();
  await bench.objects.patch(NS, "isvc/spec", { spec: { suspend: false, idle: null } });
  await phaseIs("spec", "Ready");
  await bench.objects.patch(NS, "isvc/spec", {
    spec: { idle: { afterMinutes: 1, minimumResidencySeconds: 0 } },
  });
  await pass(130);
  await untilUnloaded("spec");
  await remove("spec");
});
