/**
 * Twenty hosts whose Leases and slices a script writes: no restart of the control plane takes one of them out
 * of service. The bench `restart` has fifty.
 * CPU: twenty hosts renew their Leases while controller and API server end and come back.
 */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { LABEL_SLICE_MANAGED_BY, MANAGER_AGENT, PORT_NAME, SLICE_MANAGED_BY } from "../src/api/group.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import { registerHost } from "../test/bed/scripted-host.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { renewLease } from "../test/controller/agent-side.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";
import { createSteppedClock } from "../test/controller/stepped-clock.ts";
import { hasServingEndpoint } from "./hosts/host/plan.ts";

const HOST_COUNT = 20;
const NS = "fleet";
const WAIT = { timeout: 60_000, interval: 100 };
const hosts = Array.from({ length: HOST_COUNT }, (_, index) => `mac-${index}`);
const clock = createSteppedClock();
let bench: Bench;
beforeAll(async () => {
  bench = await startBench({ clock });
  const { client } = bench;
  for (const host of hosts) {
    await registerHost(client, host, { address: addressOf(host) });
    await renewLease(client, host);
  }
  // This takes real time, in which hosts renew as well.
  await renewAll();
  await bench.objects.createNamespace(NS);
  await bench.model(NS, "tiny");
  const spec = { replicas: HOST_COUNT, placement: { spread: "Required" }, hostLostSeconds: 60 };
  await bench.apply(inferenceService(NS, "chat", spec));
  await vi.waitFor(async () => {
    expect(await bench.replicas(NS)).toHaveLength(HOST_COUNT);
    expect(await slices()).toHaveLength(HOST_COUNT);
  }, WAIT);
  await renewAll();
  for (const replica of await bench.replicas(NS)) await serve(replica);
  await renewAll();
  await bench.serviceUntil(NS, "chat", ({ status }) =>
    expect(status?.ready).toBe(`${HOST_COUNT}/${HOST_COUNT}`),
  );
});
afterAll(() => bench?.[Symbol.asyncDispose]());

function addressOf(host: string): string {
  return `192.168.9.${Number(host.split("-")[1]) + 1}`;
}

/** What an agent writes once its engine is up. */
async function serve({ metadata, spec }: InferenceReplica): Promise<void> {
  const { name, namespace = NS } = metadata;
  const slice = {
    metadata: { name, namespace },
    addressType: "IPv4",
    endpoints: [
      {
        addresses: [addressOf(spec.template.hostName)],
        conditions: { ready: true, serving: true, terminating: false },
      },
    ],
    ports: [{ name: PORT_NAME, port: 21000, protocol: "TCP" }],
  } as EndpointSlice;
  const status = { phase: "Ready", reason: "EngineReady", message: "", port: 21000, pid: 4711 };
  const body = { metadata: { name, namespace }, status } as unknown as InferenceReplica;
  const written = [
    await bench.client.apply(ENDPOINT_SLICES, slice, { manager: MANAGER_AGENT }),
    await bench.client.apply(INFERENCE_REPLICAS, body, { manager: MANAGER_AGENT, subresource: "status" }),
  ];
  for (const result of written) if (!result.ok) throw new Error(result.error.message);
}

const renewAll = (but?: string) =>
  Promise.all(hosts.filter((host) => host !== but).map((host) => renewLease(bench.client, host)));

async function slices(): Promise<readonly EndpointSlice[]> {
  const labelSelector = `${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY}`;
  const result = await bench.client.list(ENDPOINT_SLICES, { namespace: NS, labelSelector });
  if (!result.ok) throw new Error(result.error.message);
  return result.value.items;
}

/**
 * Names of slices that stopped serving, at any time: by a watch of its own, which misses nothing that is
 * written.
 */
function watchWithdrawals(): { readonly seen: Set<string>; readonly stop: () => void } {
  const ends = new AbortController();
  const seen = new Set<string>();
  startReflector<EndpointSlice>({
    connection: bench.connection,
    clock: systemClock,
    log: quietLog,
    signal: ends.signal,
    kind: ENDPOINT_SLICES,
    namespace: NS,
    labelSelector: `${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY}`,
    onChange: (key, slice) => {
      if (slice === undefined || !hasServingEndpoint(slice)) seen.add(key);
    },
  });
  return { seen, stop: () => ends.abort() };
}

/** Hosts whose Reachable the controller has judged to be so. */
async function judged(status: string): Promise<number> {
  const result = await bench.client.list(HOSTS, {});
  if (!result.ok) return 0;
  return result.value.items.filter((host) =>
    host.status?.conditions?.some((one) => one.type === "Reachable" && one.status === status),
  ).length;
}

/** Time passes in steps in which every host renews, as it does every ten seconds. */
async function minutePasses(but?: string): Promise<void> {
  for (let step = 0; step < 6; step += 1) {
    clock.advance(10_000);
    await renewAll(but);
  }
}

test("a restart of the controller withdraws nothing and replaces nothing", async () => {
  const before = (await bench.replicas(NS)).map(({ metadata }) => metadata.uid).sort();
  const { seen, stop } = watchWithdrawals();
  for (let round = 0; round < 2; round += 1) {
    await bench.restartController();
    await minutePasses();
  }
  // Gone for longer than any Lease lasts.
  await bench.stopController();
  clock.advance(300_000);
  await bench.restartController();
  await minutePasses();
  expect(await judged("True")).toBe(HOST_COUNT);
  expect((await bench.replicas(NS)).map(({ metadata }) => metadata.uid).sort()).toEqual(before);
  stop();
  expect([...seen]).toEqual([]);
});

test("an API server that is killed, and one that is away for minutes, withdraws nothing", async () => {
  const before = (await bench.replicas(NS)).map(({ metadata }) => metadata.uid).sort();
  const { seen, stop } = watchWithdrawals();
  for (let round = 0; round < 2; round += 1) {
    bench.cluster.killApiServer();
    clock.advance(35_000);
    await vi.waitFor(() => renewAll(), WAIT);
  }
  await bench.cluster.stopApiServer();
  // Every Lease is old, as no agent could renew it without the API server.
  for (let step = 0; step < 6; step += 1) clock.advance(60_000);
  await bench.cluster.startApiServer();
  await vi.waitFor(() => renewAll(), WAIT);
  await minutePasses();
  await vi.waitFor(async () => expect(await judged("True")).toBe(HOST_COUNT), WAIT);
  expect((await bench.replicas(NS)).map(({ metadata }) => metadata.uid).sort()).toEqual(before);
  stop();
  expect([...seen]).toEqual([]);
});

test("and yet one host that dies is withdrawn, by the same controller", async () => {
  const { seen, stop } = watchWithdrawals();
  await minutePasses("mac-7");
  await vi.waitFor(async () => expect(await judged("False")).toBe(1), WAIT);
  await vi.waitFor(() => expect(seen.size).toBe(1), WAIT);
  stop();
});
