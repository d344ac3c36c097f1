import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Host } from "../src/api/host.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { ENDPOINT_SLICES, LEASES } from "../src/kube/kinds.ts";
import { registerHost } from "../test/bed/scripted-host.ts";
import { type AgentSide, renewLease } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const clock = createSteppedClock();
let bench: Bench;
const agents = new Map<string, AgentSide>();

beforeAll(async () => {
  bench = await startBench({ clock });
  for (const [index, host] of ["mac-1", "mac-2", "mac-3", "mac-4", "mac-5"].entries()) {
    agents.set(host, await bench.agent(host, { address: `192.168.7.${40 + index}` }));
  }
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function condition(host: string, type: string): Promise<string | undefined> {
  const result = await bench.client.get(HOSTS, { name: host });
  const found = result.ok ? result.value.status?.conditions?.find((one) => one.type === type) : undefined;
  return found === undefined ? undefined : `${found.status} ${found.reason}`;
}

const reachable = (host: string, desired: string) =>
  vi.waitFor(async () => expect(await condition(host, "Reachable")).toBe(desired), WAIT);

/** Time passes, and all but `silent` renew in it. */
async function pass(ms: number, silent: readonly string[]): Promise<void> {
  clock.advance(ms);
  for (const [host, agent] of agents) if (!silent.includes(host)) await agent.renew();
}

async function slicesOf(ns: string) {
  const result = await bench.client.list(ENDPOINT_SLICES, {
    namespace: ns,
    labelSelector: "endpointslice.kubernetes.io/managed-by=agent.metalbridge.dev",
  });
  return result.ok ? result.value.items : [];
}

test("a silent host is withdrawn, then marked lost, and its replica is rescheduled; a host that returns is reachable", async () => {
  const ns = "silent";
  for (const host of agents.keys()) await reachable(host, "True HostReachable");
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(
    inferenceService(ns, "chat", { hostLostSeconds: 120, placement: { hosts: ["mac-1", "mac-2"] } }),
  );
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [replica] = await bench.replicas(ns);
  const host = replica?.spec.template.hostName ?? "";
  // However long it took until here.
  await pass(0, []);
  agents.get(host)?.fallSilent();

  await pass(30_000, [host]);
  expect(await condition(host, "Reachable")).toBe("True HostReachable");
  for (let step = 0; step < 2; step += 1) await pass(20_000, [host]);
  await reachable(host, "False HostUnreachable");
  await vi.waitFor(async () => {
    const [slice] = await slicesOf(ns);
    expect(slice?.endpoints?.[0]?.conditions).toEqual({ ready: false, serving: false, terminating: true });
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => {
    expect(status).toMatchObject({ readyReplicas: 0, reason: "HostUnreachable" });
  });
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([replica?.metadata.uid]);

  for (let step = 0; step < 4; step += 1) await pass(20_000, [host]);
  await vi.waitFor(async () => expect(await condition(host, "Lost")).toBe("True HostLost"), WAIT);
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(now?.spec.template.hostName).toBe(host === "mac-1" ? "mac-2" : "mac-1");
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));

  await agents.get(host)?.renew();
  await reachable(host, "True HostReachable");
  expect(await condition(host, "Lost")).toBe("False NotLost");
});

test("a replica that its host refuses for 30 s is replaced on another host, and stops when the new one serves", async () => {
  const ns = "refused";
  const full = await bench.agent("mac-6", { address: "192.168.7.46", budgetGib: 512 });
  agents.set("mac-6", full);
  agents.set("mac-7", await bench.agent("mac-7", { address: "192.168.7.47" }));
  for (const host of ["mac-6", "mac-7"]) await reachable(host, "True HostReachable");
  // Its agent is alive, and says no.
  full.fallSilent();
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["mac-6", "mac-7"] } }));
  const old = await vi.waitFor(async () => {
    const [replica] = await bench.replicas(ns);
    if (replica === undefined) throw new Error("not created yet");
    return replica;
  }, WAIT);
  expect(old.spec.template.hostName).toBe("mac-6");
  const { name } = old.metadata;
  const status = { phase: "Waiting", reason: "InsufficientMemory", message: "40 GiB are missing" };
  const body = { metadata: { name, namespace: ns }, status } as unknown as typeof old;
  await bench.client.apply(INFERENCE_REPLICAS, body, { manager: "metalbridge-agent", subresource: "status" });
  await bench.serviceUntil(ns, "chat", (service) =>
    expect(service.status).toMatchObject({ phase: "Creating", reason: "InsufficientMemory" }),
  );

  // However long it took until here.
  await pass(0, []);
  await pass(31_000, []);
  await bench.serviceUntil(ns, "chat", (service) => expect(service.status?.phase).toBe("Ready"));
  const replicas = await bench.replicas(ns);
  const serving = replicas.find(({ spec }) => spec.template.hostName === "mac-7");
  expect(serving?.status?.phase).toBe("Ready");
  await vi.waitFor(async () => {
    const now = (await bench.replicas(ns)).find(({ metadata }) => metadata.name === name);
    expect(now?.metadata.deletionTimestamp).toBeDefined();
  }, WAIT);
});

test("a rollout continues where the file of its Model is, and not on a host that lacks it", async () => {
  const ns = "files";
  const statusOf = () =>
    ({ phase: "Failed", reason: "SourceNotAllowed", message: "not a --model-root" }) as const;
  agents.set("files-1", await bench.agent("files-1", { address: "192.168.7.48", budgetGib: 8 }));
  agents.set("files-2", await bench.agent("files-2", { address: "192.168.7.49", budgetGib: 512, statusOf }));
  for (const host of ["files-1", "files-2"]) await reachable(host, "True HostReachable");
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny", { source: "file:///models/tiny.gguf" });
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["files-1"] } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [old] = await bench.replicas(ns);
  await bench.apply(
    inferenceService(ns, "chat", { contextSize: 2048, placement: { hosts: ["files-1", "files-2"] } }),
  );
  // The controller's patience counts from when it has seen the refusal.
  await bench.serviceUntil(ns, "chat", ({ status }) => {
    expect(status?.message).toMatch(/ on files-2 is Failed$/);
    expect(status).toMatchObject({ ready: "1/1" });
  });

  // However long it took until here.
  await pass(0, []);
  await pass(31_000, []);
  await bench.serviceUntil(ns, "chat", (service) => {
    expect(service.status).toMatchObject({ phase: "Ready", ready: "1/1", replicas: 1 });
    expect(service.status?.currentRevision).toBe(service.status?.updateRevision);
  });
  const now = await vi.waitFor(async () => {
    const [only, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    return only;
  }, WAIT);
  expect(now?.spec.template.hostName).toBe("files-1");
  expect(now?.metadata.uid).not.toBe(old?.metadata.uid);
  expect(await eventsOf("chat", ns)).not.toContain("Warning RolloutStopped");
  // The next tests count the hosts.
  for (const host of ["files-1", "files-2"]) {
    await bench.client.remove(HOSTS, { name: host });
    agents.get(host)?.fallSilent();
    agents.delete(host);
  }
});

const annotationsOf = async (host: string) => {
  const result = await bench.client.get(HOSTS, { name: host });
  return result.ok ? (result.value.metadata.annotations ?? {}) : {};
};

async function eventsOf(name: string, namespace?: string): Promise<string[]> {
  const found = await bench.cluster.kubectl([
    ...["get", "events", ...(namespace === undefined ? ["-A"] : ["-n", namespace]), "-o"],
    `jsonpath={range .items[?(@.involvedObject.name=='${name}')]}{.type} {.reason}{'\\n'}{end}`,
  ]);
  return found.split("\n");
}

/**
 * In steps so small that what the others renew is always seen in time; one step more than the 40 s of a
 * Lease need, because the controller may see the last renewal only after the first.
 */
async function silentFor54s(host: string): Promise<void> {
  for (let step = 0; step < 6; step += 1) await pass(9_000, [host]);
}

test("a host that is declared lost loses its replicas once its Lease has expired; the mark is removed when it returns", async () => {
  const ns = "declared";
  await pass(1_000, []);
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["mac-4", "mac-5"] } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [replica] = await bench.replicas(ns);
  const host = replica?.spec.template.hostName ?? "";
  agents.get(host)?.fallSilent();
  await bench.cluster.kubectl(["annotate", "host", host, "metalbridge.dev/lost=2026-01-01T00:00:00Z"]);
  await silentFor54s(host);
  await vi.waitFor(async () => expect(await condition(host, "Lost")).toBe("True HostLost"), WAIT);
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(now?.spec.template.hostName).toBe(host === "mac-4" ? "mac-5" : "mac-4");
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  expect(await annotationsOf(host)).toHaveProperty(["metalbridge.dev/lost"]);

  agents.set(host, await bench.agent(host, { address: "192.168.7.49" }));
  await reachable(host, "True HostReachable");
  await vi.waitFor(async () => expect(await annotationsOf(host)).toEqual({}), WAIT);
  expect(await condition(host, "Lost")).toBe("False NotLost");
  // One engine serves, on the other host, and nothing leads to the one that was replaced.
  const slices = await slicesOf(ns);
  expect(slices.map(({ metadata }) => metadata.labels?.["metalbridge.dev/host"])).toEqual([
    host === "mac-4" ? "mac-5" : "mac-4",
  ]);
  await vi.waitFor(async () => {
    const events = await eventsOf(host);
    for (const line of ["Warning HostLost", "Normal HostReturned"]) expect(events).toContain(line);
    expect(events).not.toContain("Warning HostNotLost");
    expect(await eventsOf("chat")).toContain("Warning HostLost");
  }, WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a host that is declared lost and renews its Lease keeps its replicas", async () => {
  await pass(1_000, []);
  await bench.cluster.kubectl(["annotate", "host", "mac-3", "metalbridge.dev/lost=yes"]);
  // Only what comes after the mark was seen counts, and it is seen by a watch.
  await vi.waitFor(async () => {
    await pass(1_000, []);
    expect(await annotationsOf("mac-3")).toEqual({});
  }, WAIT);
  expect(await condition("mac-3", "Lost")).toBe("False NotLost");
  await vi.waitFor(async () => expect(await eventsOf("mac-3")).toContain("Warning HostNotLost"), WAIT);
});

test("a flapping host gets no new replica for ten minutes", async () => {
  const ns = "flapping";
  const host = "mac-2";
  await pass(1_000, []);
  await reachable(host, "True HostReachable");
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  for (let round = 0; round < 2; round += 1) {
    await silentFor54s(host);
    await reachable(host, "False HostUnreachable");
    await agents.get(host)?.renew();
    await reachable(host, "True HostReachable");
  }
  await vi.waitFor(async () => expect(await condition(host, "Flapping")).toBe("True HostFlapping"), WAIT);
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: [host] } }));
  const waiting = await bench.serviceUntil(ns, "chat", ({ status }) =>
    expect(status?.phase).toBe("WaitingForCapacity"),
  );
  expect(waiting.status?.message).toContain("no replicas are scheduled here until 20");
  for (let minutes = 0; minutes < 11; minutes += 1) {
    for (let step = 0; step < 4; step += 1) await pass(15_000, []);
  }
  await vi.waitFor(async () => expect(await condition(host, "Flapping")).toBe("False HostSteady"), WAIT);
  await vi.waitFor(async () => expect(await bench.replicas(ns)).toHaveLength(1), WAIT);
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns]);
});

test("a host whose agent has never reported is not silent, however late it is registered", async () => {
  const host = "mac-10";
  const { client } = bench;
  // More than 40 s after the controller began.
  for (let step = 0; step < 5; step += 1) await pass(9_000, []);
  await registerHost(client, host, { address: "192.168.7.50" });
  await reachable(host, "Unknown HostNeverSeen");
  for (let step = 0; step < 6; step += 1) await pass(9_000, []);
  await renewLease(client, host);
  await reachable(host, "True HostReachable");
  const result = await client.get(HOSTS, { name: host });
  expect(result.ok && result.value.status?.reachableChanges).toBeUndefined();
  await vi.waitFor(async () => expect(await eventsOf(host)).toContain("Normal HostReachable"), WAIT);
  expect(await eventsOf(host)).not.toContain("Warning HostUnreachable");
  await bench.cluster.kubectl(["delete", "mbhost", host]);
});

test("hosts that are registered long before they join are Unknown, without an Event, and in no mass expiry", async () => {
  const { client } = bench;
  const names = Array.from({ length: 12 }, (_, index) => `later-${index}`);
  for (const name of names) {
    // As `metalbridge host add` leaves them.
    await client.create(HOSTS, {
      metadata: { name },
      spec: { addresses: ["192.168.7.60"] },
    } as unknown as Host);
    await client.create(LEASES, { metadata: { name, namespace: "metalbridge-hosts" }, spec: {} });
  }
  for (const host of names) await reachable(host, "Unknown HostNeverSeen");
  for (let step = 0; step < 6; step += 1) await pass(9_000, ["mac-1"]);
  await reachable("mac-1", "False HostUnreachable");
  const found = await client.list(HOSTS);
  const all = found.ok ? found.value.items : [];
  for (const host of names) {
    const status = all.find(({ metadata }) => metadata.name === host)?.status;
    expect(status?.conditions?.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      "Reachable HostNeverSeen",
    ]);
    expect(status?.reachableChanges).toBeUndefined();
  }
  const events = await bench.cluster.kubectl([
    ...["get", "events", "-A", "-o", "jsonpath={.items[*].involvedObject.name}"],
  ]);
  expect(events.split(" ").filter((name) => name.startsWith("later-"))).toEqual([]);
  await bench.cluster.kubectl(["delete", "mbhost", ...names]);
  await pass(0, []);
  await reachable("mac-1", "True HostReachable");
});

test("a restarted controller still knows that a host is flapping", async () => {
  const host = "mac-9";
  agents.set(host, await bench.agent(host, { address: "192.168.7.49" }));
  await reachable(host, "True HostReachable");
  await silentFor54s(host);
  await reachable(host, "False HostUnreachable");
  await agents.get(host)?.renew();
  await reachable(host, "True HostReachable");
  const early = await bench.client.get(HOSTS, { name: host });
  expect(early.ok && early.value.status?.reachableChanges).toHaveLength(2);
  await bench.restartController();
  await pass(1_000, []);
  await silentFor54s(host);
  // The third change within ten minutes, of which the new controller has seen one.
  await vi.waitFor(async () => expect(await condition(host, "Flapping")).toBe("True HostFlapping"), WAIT);
  const result = await bench.client.get(HOSTS, { name: host });
  expect(result.ok && result.value.status?.reachableChanges).toHaveLength(3);
  agents.get(host)?.fallSilent();
  agents.delete(host);
  await bench.cluster.kubectl(["delete", "mbhost", host]);
});

test("the Lease of a deleted host is removed once its agent no longer renews it", async () => {
  const agent = await bench.agent("mac-8", { address: "192.168.7.48", budgetGib: 8 });
  await reachable("mac-8", "True HostReachable");
  const lease = () => bench.client.get(LEASES, { name: "mac-8", namespace: "metalbridge-hosts" });
  await bench.cluster.kubectl(["delete", "mbhost", "mac-8"]);
  // However long it took until here.
  await pass(0, []);
  await pass(30_000, []);
  await agent.renew();
  await pass(30_000, []);
  expect((await lease()).ok).toBe(true);
  agent.fallSilent();
  await pass(41_000, []);
  await vi.waitFor(async () => expect((await lease()).ok).toBe(false), WAIT);
});

test("no endpoint is withdrawn if most hosts fall silent at once", async () => {
  const ns = "mass";
  await pass(1_000, []);
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["mac-3"] } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [before] = await slicesOf(ns);
  await pass(41_000, ["mac-3", "mac-4", "mac-5", "mac-6"]);
  for (const host of ["mac-3", "mac-4", "mac-5"]) await reachable(host, "Unknown MassExpiry");
  expect((await slicesOf(ns))[0]?.metadata.resourceVersion).toBe(before?.metadata.resourceVersion);
  // Not all return at the same moment.
  await pass(1_000, ["mac-3"]);
  for (const host of ["mac-4", "mac-5", "mac-6"]) await reachable(host, "True HostReachable");
  await pass(5_000, ["mac-3"]);
  expect(await condition("mac-3", "Reachable")).toBe("Unknown MassExpiry");
  expect((await slicesOf(ns))[0]?.metadata.resourceVersion).toBe(before?.metadata.resourceVersion);
  await pass(1_000, []);
  await reachable("mac-3", "True HostReachable");
});

test("the silence of hosts restarts after an outage of the API server", async () => {
  await pass(1_000, []);
  await bench.cluster.stopApiServer();
  clock.advance(39_000);
  await bench.cluster.startApiServer();
  for (const agent of agents.values()) {
    await vi.waitFor(() => agent.renew(), WAIT);
  }
  for (const host of agents.keys()) expect(await condition(host, "Reachable")).toBe("True HostReachable");
});
