import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const WAIT = { timeout: 20_000, interval: 50 };
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

const reachable = (host: string, wanted: string) =>
  vi.waitFor(async () => expect(await condition(host, "Reachable")).toBe(wanted), WAIT);

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

test("a silent host is withdrawn, then lost and its replica placed anew; a returning one is reachable", async () => {
  const ns = "silent";
  for (const host of agents.keys()) await reachable(host, "True HostReachable");
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(
    inferenceService(ns, "chat", { hostLostSeconds: 60, placement: { hosts: ["mac-1", "mac-2"] } }),
  );
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  const [replica] = await bench.replicas(ns);
  const host = replica?.spec.template.hostName ?? "";
  agents.get(host)?.fallSilent();

  await pass(30_000, [host]);
  expect(await condition(host, "Reachable")).toBe("True HostReachable");
  await pass(15_000, [host]);
  await reachable(host, "False HostUnreachable");
  await vi.waitFor(async () => {
    const [slice] = await slicesOf(ns);
    expect(slice?.endpoints?.[0]?.conditions).toEqual({ ready: false, serving: false, terminating: true });
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => {
    expect(status).toMatchObject({ readyReplicas: 0, reason: "HostUnreachable" });
  });
  expect((await bench.replicas(ns)).map(({ metadata }) => metadata.uid)).toEqual([replica?.metadata.uid]);

  await pass(20_000, [host]);
  await vi.waitFor(async () => expect(await condition(host, "Lost")).toBe("True HostLost"), WAIT);
  await vi.waitFor(async () => {
    const [now, ...others] = await bench.replicas(ns);
    expect(others).toEqual([]);
    expect(now?.spec.template.hostName).toBe(host === "mac-1" ? "mac-2" : "mac-1");
  }, WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));

  await agents.get(host)?.renew();
  await reachable(host, "True HostReachable");
  expect(await condition(host, "Lost")).toBe("False HostReachable");
});

test("a replica that its host refuses for 30 s is replaced elsewhere, and ends when the new one serves", async () => {
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

test("when most hosts fall silent at once nothing is withdrawn", async () => {
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
  await pass(1_000, []);
  for (const host of ["mac-3", "mac-4", "mac-5"]) await reachable(host, "True HostReachable");
});

test("after an outage of the API server silence is counted afresh", async () => {
  await pass(1_000, []);
  await bench.cluster.stopApiServer();
  clock.advance(39_000);
  await bench.cluster.startApiServer();
  for (const agent of agents.values()) {
    await vi.waitFor(() => agent.renew(), WAIT);
  }
  for (const host of agents.keys()) expect(await condition(host, "Reachable")).toBe("True HostReachable");
});
