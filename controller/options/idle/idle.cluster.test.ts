/** Services with spec.idle on scripted hosts: unloaded without requests, woken by demand Leases, and taking turns on one host. */
import { beforeEach, expect, test } from "vitest";
import { getCondition } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { demand } from "../../../test/bed/demand.ts";
import { ENGINE_PORT } from "../../../test/bed/scripted-host.ts";
import { inferenceService } from "../../../test/controller/bench.ts";
import { oneOnce } from "../../../test/controller/once.ts";

const NS = "idle";
const HOSTS = ["mac-a", "mac-b", "mac-c"];
const bench = oneOnce();
/** Requests in flight of each engine by service. */
const load = new Map<string, number>();

const statusOf = ({ spec }: InferenceReplica): InferenceReplica["status"] => {
  const requestsInFlight = load.get(spec.template.serviceName) ?? 0;
  return {
    ...({ phase: "Ready", reason: "EngineReady", message: "", port: ENGINE_PORT, pid: 4711 } as const),
    performance: requestsInFlight === 0 ? undefined : { requestsInFlight },
  };
};

beforeEach(async () => {
  load.clear();
  // Each has memory for one replica.
  await bench().agents(Object.fromEntries(HOSTS.map((host) => [host, { statusOf, budgetGib: 7 }])));
  await bench().namespace(NS);
});

const pass = (seconds: number) => bench().advance(seconds * 1_000);
const idleOn = (host: string, name: string, idle: object = {}) =>
  inferenceService(NS, name, {
    idle: { afterMinutes: 5, minimumResidencySeconds: 30, ...idle },
    placement: { hosts: [host] },
  });
const renewDemand = (name: string) => demand(bench().client, NS, name, bench().clock.nowMs());
const ask = async (name: string) => {
  await renewDemand(name);
  await bench().settle();
};
const service = (name: string) => bench().service(NS, name);
const replicasOf = async (name: string) =>
  (await bench().replicas(NS)).filter(({ spec }) => spec.template.serviceName === name);
const expectPhase = async (name: string, phase: string): Promise<InferenceService> => {
  const found = await service(name);
  expect(`${name} is ${found.status?.phase}`).toBe(`${name} is ${phase}`);
  return found;
};
const reasonOf = ({ status }: InferenceService) => getCondition(status?.conditions, "Idle")?.reason;
/** Its engine has so many requests now. */
const setLoad = async (name: string, requests: number) => {
  load.set(name, requests);
  for (const host of HOSTS) bench().agent(host).look();
  await bench().settle();
};

async function expectUnloaded(name: string): Promise<InferenceService> {
  expect(await replicasOf(name)).toEqual([]);
  return expectPhase(name, "Idle");
}

test("a service without requests is unloaded, shown as Idle, and loaded again once by many renewals", async () => {
  await bench().apply(inferenceService(NS, "chat", { idle: { afterMinutes: 5 } }));
  await expectPhase("chat", "Ready");
  const [first] = await replicasOf("chat");
  await pass(200);
  await ask("chat");
  await pass(200);
  const awake = await service("chat");
  expect(awake.status).toMatchObject({ phase: "Ready", idle: { state: "Awake" } });
  expect(reasonOf(awake)).toBe("Loaded");
  await pass(120);

  const { status } = await expectUnloaded("chat");
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
  expect(await bench().cluster.kubectl(["get", "isvc", "chat", "-n", NS])).toMatch(/chat +Idle +0\/0/);

  await Promise.all(Array.from({ length: 20 }, () => renewDemand("chat")));
  await bench().settle();
  await expectPhase("chat", "Ready");
  const [again, ...others] = await replicasOf("chat");
  expect(others).toEqual([]);
  expect(again?.metadata.uid).not.toBe(first?.metadata.uid);
  expect(again?.metadata.name).toBe(first?.metadata.name);
  expect(again?.spec.template.hostName).toBe(first?.spec.template.hostName);
  const events = bench().events("chat");
  for (const reason of ["Waking", "Idle"])
    expect(events.filter((event) => event.includes(` ${reason}: `))).toHaveLength(1);
  expect((await service("chat")).status?.idle).not.toHaveProperty("hosts");
});

test("two services that share a host take turns, and neither is unloaded while it has requests", async () => {
  await bench().apply(idleOn("mac-a", "one"));
  await expectPhase("one", "Ready");
  await setLoad("one", 2);
  await bench().apply(idleOn("mac-a", "two"));
  await expectPhase("two", "WaitingForCapacity");
  await pass(60);
  expect((await service("one")).status?.performance?.requestsInFlight).toBe(2);
  await expectPhase("two", "WaitingForCapacity");
  await expectPhase("one", "Ready");

  await setLoad("one", 0);
  await pass(60);
  const displaced = await expectPhase("one", "Idle");
  expect(displaced.status).toMatchObject({
    reason: "IdleForOthers",
    message: `unloaded for ${NS}/two, which needs the memory; the next request through the gateway loads the replicas`,
  });
  await expectPhase("two", "Ready");
  await ask("two");

  // The first is wanted again while the other one has just been loaded.
  await ask("one");
  const waking = await expectPhase("one", "WaitingForCapacity");
  expect(waking.status).toMatchObject({ idle: { state: "Waking" }, queuePosition: 1 });
  expect(waking.status?.message).toContain("mac-a");
  await pass(25);
  await expectPhase("two", "Ready");
  await pass(35);
  await expectUnloaded("two");
  await expectPhase("one", "Ready");
});

test("two services with constant requests take turns of minimumResidencySeconds", async () => {
  await bench().apply(idleOn("mac-a", "left"));
  await setLoad("left", 1);
  await setLoad("right", 1);
  await bench().apply(idleOn("mac-a", "right"));
  await expectPhase("right", "WaitingForCapacity");
  await pass(120);
  // No request waits for the other one yet.
  await expectPhase("left", "Ready");
  for (const [waits, serves] of [
    ["right", "left"],
    ["left", "right"],
    ["right", "left"],
  ] as const) {
    await ask(waits);
    expect((await service(waits)).status?.idle?.state).toBe("Waking");
    await pass(15);
    await expectPhase(serves, "Ready");
    await pass(30);
    await expectPhase(waits, "Ready");
    expect((await expectUnloaded(serves)).status?.reason).toBe("IdleForOthers");
  }
});

test("a service without spec.idle is never unloaded for one that wakes", async () => {
  await bench().apply(inferenceService(NS, "fixed", { placement: { hosts: ["mac-b"] } }));
  await expectPhase("fixed", "Ready");
  await bench().apply(idleOn("mac-b", "asks"));
  await ask("asks");
  await pass(240);
  await expectPhase("fixed", "Ready");
  await expectPhase("asks", "WaitingForCapacity");
  await bench().remove(NS, "isvc/fixed");
  await expectPhase("asks", "Ready");
});

test("the least recently used of several services is unloaded", async () => {
  await bench().agents({ "mac-d": { statusOf, budgetGib: 12 } });
  await bench().apply(idleOn("mac-d", "older"), idleOn("mac-d", "newer"));
  for (const name of ["older", "newer"]) await expectPhase(name, "Ready");
  await pass(40);
  await ask("newer");
  await pass(60);
  expect((await service("newer")).status?.idle?.lastRequestTime).toBeDefined();
  await bench().apply(idleOn("mac-d", "third"));
  await expectPhase("third", "Ready");
  await expectPhase("newer", "Ready");
  await expectUnloaded("older");
});

test("a change of leader neither unloads a service, nor wakes an idle one, nor misses demand", async () => {
  await bench().apply(idleOn("mac-a", "kept"));
  await ask("kept");
  await pass(200);
  await bench().restart();
  await pass(200);
  await expectPhase("kept", "Ready");
  await pass(150);
  const before = await expectUnloaded("kept");

  await bench().restart();
  expect((await expectUnloaded("kept")).status?.idle).toEqual(before.status?.idle);

  await bench().restart(() => renewDemand("kept"));
  await expectPhase("kept", "Ready");
});

test("an idle service follows its spec: scale, change, window, suspend, removal of spec.idle", async () => {
  const change = (spec: object) => bench().patch(NS, "isvc/spec", { spec });
  const idle = { afterMinutes: 1, minimumResidencySeconds: 0 };
  await bench().apply(inferenceService(NS, "spec", { idle }));
  await expectPhase("spec", "Ready");
  await pass(130);
  await expectUnloaded("spec");
  await change({ replicas: 2, contextSize: 4096 });
  const { metadata, status } = await expectUnloaded("spec");
  expect(status?.observedGeneration).toBe(metadata.generation);

  await ask("spec");
  expect((await expectPhase("spec", "Ready")).status?.ready).toBe("2/2");
  const contexts = (await replicasOf("spec")).map(({ spec }) => spec.template.engine.contextSize);
  expect(contexts).toEqual([4096, 4096]);
  await pass(130);
  await expectUnloaded("spec");

  await change({ replicas: 1, idle: { keepWarm: [{ start: "00:00", end: "24:00" }] } });
  await pass(200);
  expect(reasonOf(await expectPhase("spec", "Ready"))).toBe("KeptWarm");
  await change({ idle: { keepWarm: null } });
  await expectUnloaded("spec");
  await change({ suspend: true });
  const suspended = await expectPhase("spec", "Suspended");
  expect(suspended.status?.idle).toBeUndefined();
  expect(reasonOf(suspended)).toBeUndefined();
  await change({ suspend: false, idle: null });
  await expectPhase("spec", "Ready");
  await change({ idle });
  await pass(130);
  await expectUnloaded("spec");
});
