import { randomBytes } from "node:crypto";
import { expect, test, vi } from "vitest";
import { ANNOTATION_ADDRESSES, LABEL_HOST } from "../../src/api/group.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Clock } from "../../src/util/ports.ts";
import { sharedCluster, startCluster, type TestCluster } from "../../test/cluster/cluster.ts";
import { silentLog } from "../store/fixtures/store.ts";
import { createEndpoints, type SliceEndpoints } from "./endpoints.ts";

const where = { address: "192.0.2.10", port: 21_005 };
const patiently = { timeout: 60_000, interval: 20 };

interface Bench extends AsyncDisposable {
  readonly endpoints: SliceEndpoints;
  readonly namespace: string;
  readonly changed: string[];
  readonly create: (name: string, addresses?: string) => Promise<void>;
  readonly read: (
    name: string,
  ) => Promise<{ endpoints: unknown; ports: unknown; metadata: { resourceVersion: string } }>;
}

async function startBench(cluster: TestCluster, clock = systemClock): Promise<Bench> {
  const namespace = await cluster.namespace();
  const controller = new AbortController();
  const hostName = `h-${randomBytes(4).toString("hex")}`;
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const changed: string[] = [];
  const endpoints = createEndpoints({
    connection,
    client: createClient(connection),
    clock,
    log: silentLog,
    signal: controller.signal,
    hostName,
    onChange: (key) => changed.push(key),
  });
  return {
    endpoints,
    namespace: namespace.name,
    changed,
    create: async (name, addresses = "192.0.2.0/24") => {
      const slice = {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name,
          namespace: namespace.name,
          labels: { [LABEL_HOST]: hostName },
          annotations: { [ANNOTATION_ADDRESSES]: addresses },
        },
        addressType: "IPv4",
        endpoints: [],
      };
      await cluster.objects.create(slice);
    },
    read: (name) => cluster.objects.get(namespace.name, `endpointslices/${name}`),
    [Symbol.asyncDispose]: async () => {
      controller.abort();
      connection.close();
      await namespace[Symbol.asyncDispose]();
    },
  };
}

test("a slice is announced, changed and withdrawn, each acknowledged at once and the last withdrawn for good", async () => {
  await using bench = await startBench(sharedCluster());
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  await bench.create(replica.name);
  await vi.waitFor(() => expect(bench.endpoints.state(replica, where)).toBe("unwritten"), patiently);
  expect(await bench.endpoints.announce(replica, where)).toEqual({ ok: true, state: "ready" });
  expect(bench.endpoints.state(replica, where)).toBe("ready");
  expect(bench.endpoints.state(replica, { ...where, port: 21_006 })).toBe("stale");
  expect(await bench.read(replica.name)).toMatchObject({
    endpoints: [
      { addresses: [where.address], conditions: { ready: true, serving: true, terminating: false } },
    ],
    ports: [{ name: "http", port: where.port, protocol: "TCP" }],
  });
  const { resourceVersion } = (await bench.read(replica.name)).metadata;
  expect(await bench.endpoints.announce(replica, where)).toEqual({ ok: true, state: "ready" });
  expect((await bench.read(replica.name)).metadata.resourceVersion).toBe(resourceVersion);
  expect(await bench.endpoints.withdraw(replica)).toEqual({ ok: true, state: "withdrawn" });
  expect(bench.endpoints.state(replica, where)).toBe("withdrawn");
  expect(await bench.read(replica.name)).toMatchObject({
    endpoints: [
      { addresses: [where.address], conditions: { ready: false, serving: false, terminating: true } },
    ],
    ports: [{ port: where.port }],
  });
  await vi.waitFor(() => expect(bench.changed).toContain(`${bench.namespace}/${replica.name}`), patiently);
});

test("a withdrawal immediately after an announcement wins", async () => {
  await using bench = await startBench(sharedCluster());
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  await bench.create(replica.name);
  const announced = Array.from({ length: 5 }, () => bench.endpoints.announce(replica, where));
  const last = bench.endpoints.withdraw(replica);
  await Promise.all(announced);
  expect(await last).toMatchObject({ ok: true });
  const { endpoints } = await bench.read(replica.name);
  expect(JSON.stringify(endpoints ?? [])).not.toContain('"ready":true');
});

test("a slice that is missing or deleted during a write is never created and counts as withdrawn", async () => {
  const cluster = sharedCluster();
  await using bench = await startBench(cluster);
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  expect(await bench.endpoints.announce(replica, where)).toMatchObject({ ok: false });
  expect(await bench.endpoints.withdraw(replica)).toEqual({ ok: true, state: "missing" });
  await bench.create(replica.name);
  expect(await bench.endpoints.announce(replica, where)).toEqual({ ok: true, state: "ready" });
  await cluster.objects.remove(bench.namespace, `endpointslices/${replica.name}`);
  expect(await bench.endpoints.withdraw(replica)).toEqual({ ok: true, state: "missing" });
  await expect(bench.read(replica.name)).rejects.toThrow(/not found/);
});

test("addresses that the slice may not hold are refused with a reason and not sent", async () => {
  await using bench = await startBench(sharedCluster());
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  await bench.create(replica.name, "192.0.2.1,198.51.100.0/24");
  const refused: [string, RegExp][] = [
    ["192.0.2.10", /not among the addresses/],
    ["127.0.0.1", /loopback/],
    ["169.254.1.1", /link-local/],
    ["0.0.0.0", /unspecified/],
    ["2001:db8::1", /IPv6/],
    ["nonsense", /not an IP address/],
  ];
  for (const [address, why] of refused) {
    expect(await bench.endpoints.announce(replica, { address, port: 1 })).toEqual({
      ok: false,
      message: expect.stringMatching(why),
    });
  }
  expect(await bench.endpoints.announce(replica, { address: "198.51.100.9", port: 21_000 })).toMatchObject({
    ok: true,
  });
});

test("another writer's change of the slice is detected and corrected", async () => {
  const cluster = sharedCluster();
  await using bench = await startBench(cluster);
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  await bench.create(replica.name);
  await bench.endpoints.announce(replica, where);
  const conditions = { ready: false, serving: false, terminating: true };
  await cluster.objects.patch(bench.namespace, `endpointslices/${replica.name}`, {
    endpoints: [{ addresses: [where.address], conditions }],
  });
  await vi.waitFor(() => expect(bench.endpoints.state(replica, where)).toBe("withdrawn"), patiently);
  expect(await bench.endpoints.announce(replica, where)).toEqual({ ok: true, state: "ready" });
  expect(JSON.stringify((await bench.read(replica.name)).endpoints)).toContain('"ready":true');
});

test("a write in backoff is retried immediately when the network has changed", async () => {
  await using cluster = await startCluster();
  const farm = { isTimeStill: false, waits: 0 };
  const after: Clock["after"] = (delayMs, fire) => {
    if (!farm.isTimeStill) return systemClock.after(delayMs, fire);
    farm.waits += 1;
    return () => {};
  };
  await using bench = await startBench(cluster, { ...systemClock, after });
  const replica = { name: "chat-0-abc", namespace: bench.namespace };
  await bench.create(replica.name);
  await bench.endpoints.announce(replica, where);
  farm.isTimeStill = true;
  await cluster.stopApiServer();
  // The watch's wait comes with the server's end.
  await vi.waitFor(() => expect(farm.waits).toBeGreaterThan(0), patiently);
  const before = farm.waits;
  const withdrawn = bench.endpoints.withdraw(replica);
  await vi.waitFor(() => expect(farm.waits).toBeGreaterThan(before), patiently);
  await cluster.startApiServer();
  bench.endpoints.retryNow();
  expect(await withdrawn).toEqual({ ok: true, state: "withdrawn" });
});
