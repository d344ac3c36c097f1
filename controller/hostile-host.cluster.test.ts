/** A host that renews its Lease and does not do what the cluster asks: deleted replicas, and a loss declared by force. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { HOSTS } from "../src/api/kinds.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { AgentSide } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";

const WAIT = { timeout: 60_000, interval: 50 };
const clock = createSteppedClock();
let bench: Bench;
const agents = new Map<string, AgentSide>();

beforeAll(async () => {
  bench = await startBench({ clock });
  for (const [index, host] of ["honest", "hostile"].entries())
    agents.set(host, await bench.agent(host, { address: `192.168.7.${60 + index}` }));
});
afterAll(() => bench?.[Symbol.asyncDispose]());

async function pass(ms: number): Promise<void> {
  clock.advance(ms);
  for (const agent of agents.values()) await agent.renew();
}

async function condition(host: string, type: string): Promise<string | undefined> {
  const result = await bench.client.get(HOSTS, { name: host });
  const found = result.ok ? result.value.status?.conditions?.find((one) => one.type === type) : undefined;
  return found && `${found.status} ${found.reason}`;
}

async function sliceHosts(ns: string): Promise<(string | undefined)[]> {
  const result = await bench.client.list(ENDPOINT_SLICES, {
    namespace: ns,
    labelSelector: "endpointslice.kubernetes.io/managed-by=agent.metalbridge.dev",
  });
  if (!result.ok) throw new Error(result.error.message);
  return result.value.items.map(({ metadata }) => metadata.labels?.["metalbridge.dev/host"]);
}

async function serve(ns: string, hosts: readonly string[]): Promise<void> {
  await bench.cluster.kubectl(["create", "namespace", ns]);
  await bench.model(ns, "tiny");
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts } }));
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
}

const eventsOf = (name: string) =>
  bench.cluster.kubectl([
    ...["get", "events", "-A", "-o"],
    `jsonpath={range .items[?(@.involvedObject.name=='${name}')]}{.type} {.reason}{'\\n'}{end}`,
  ]);

test("a deleted replica that its reachable host keeps is removed with its slice a minute after its drain", async () => {
  const ns = "kept";
  await serve(ns, ["hostile"]);
  const [replica] = await bench.replicas(ns);
  // It renews its Lease and does nothing else.
  agents.get("hostile")?.fallSilent();
  await bench.cluster.kubectl(["delete", "isvc", "chat", "-n", ns, "--wait=false"]);
  await vi.waitFor(async () => {
    expect((await bench.replicas(ns))[0]?.metadata.deletionTimestamp).toBeDefined();
  }, WAIT);

  for (let step = 0; step < 4; step += 1) await pass(15_000);
  expect(await condition("hostile", "Reachable")).toBe("True HostReachable");
  expect(await bench.replicas(ns)).toHaveLength(1);
  // The controller may have seen the deletion only after the first step.
  for (let step = 0; step < 4; step += 1) await pass(15_000);
  await vi.waitFor(async () => expect(await bench.replicas(ns)).toEqual([]), WAIT);
  await vi.waitFor(async () => expect(await sliceHosts(ns)).toEqual([]), WAIT);
  for (const name of ["hostile", replica?.metadata.name ?? ""])
    await vi.waitFor(async () => expect(await eventsOf(name)).toContain("Warning DeletionForced"), WAIT);
  agents.set("hostile", await bench.agent("hostile", { address: "192.168.7.61" }));
});

test("a host that is declared lost by force loses its replicas while it renews its Lease, until the mark is removed", async () => {
  const ns = "forced";
  await pass(1_000);
  await serve(ns, ["hostile"]);
  agents.get("hostile")?.fallSilent();
  await bench.apply(inferenceService(ns, "chat", { placement: { hosts: ["hostile", "honest"] } }));
  await bench.cluster.kubectl([
    "annotate",
    "host",
    "hostile",
    "metalbridge.dev/lost=force 2026-01-01T00:00:00Z",
  ]);
  await vi.waitFor(async () => expect(await condition("hostile", "Lost")).toBe("True HostLost"), WAIT);
  await bench.serviceUntil(ns, "chat", ({ status }) => expect(status?.phase).toBe("Ready"));
  await vi.waitFor(async () => expect(await sliceHosts(ns)).toEqual(["honest"]), WAIT);

  await pass(5_000);
  await pass(5_000);
  expect(await condition("hostile", "Lost")).toBe("True HostLost");
  await bench.cluster.kubectl(["annotate", "host", "hostile", "metalbridge.dev/lost-"]);
  await vi.waitFor(
    async () => expect(await condition("hostile", "Reachable")).toBe("True HostReachable"),
    WAIT,
  );
  expect(await condition("hostile", "Lost")).toBe("False NotLost");
});
