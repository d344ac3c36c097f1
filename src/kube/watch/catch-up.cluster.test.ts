/** A Lease whose renewal succeeds again proves that the API server is back: watches do not sit out their own waits. */
import { expect, it, vi } from "vitest";
import { startCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import { connectNoted, type NotedConnection } from "../../../test/fixtures/noted-connection.ts";
import type { Clock } from "../../util/ports.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { keepLease } from "../lease/lease.ts";
import type { ConfigMap } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import { createCatchUp } from "./catch-up.ts";
import { startReflector } from "./reflector.ts";
import { createNotingClock } from "./testing/noting-clock.ts";

const within = { timeout: 60_000, interval: 20 };
/** Those that a new holder of a Lease makes in a hurry. */
const QUICK_RENEWALS = 4;
/** Waits of a watch are a thousand times longer: nothing but the Lease ends one in this test's time. */
const slow: Clock = { ...systemClock, after: (delayMs, fire) => systemClock.after(delayMs * 1_000, fire) };

async function put(connection: NotedConnection, x: string): Promise<void> {
  const object = { metadata: { namespace: "default", name: "a" }, data: { x } };
  const result = await createClient(connection).apply(CONFIG_MAPS, object, { manager: "test" });
  if (!result.ok) throw new Error(result.error.message);
}

/** A host behind a proxy that has its object and has renewed twice, and the API server without that proxy. */
async function hostBehindProxy(random: () => number, renewMs: number) {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster({ crds: false }));
  const proxy = stack.use(await proxyCluster(cluster.kubeconfig, cluster.dir));
  const direct = stack.use(await connectNoted(cluster.kubeconfig));
  const connection = stack.use(await connectNoted(proxy.kubeconfig));
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  await put(direct, "1");
  const host = hostOn(connection, ending.signal, random, renewMs);
  await vi.waitFor(() => expect(host.x()).toBe("1"), within);
  await vi.waitFor(() => expect(host.renewals.length).toBeGreaterThan(1), within);
  const kept = stack.move();
  return { ...host, direct, proxy, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** A watch and a Lease on one connection, as an agent holds them. */
function hostOn(connection: NotedConnection, signal: AbortSignal, random: () => number, renewMs: number) {
  const shared = { connection, signal, log: quietLog };
  const renewals: (number | undefined)[] = [];
  let failures = 0;
  const reflector = startReflector<ConfigMap>({
    ...shared,
    clock: slow,
    kind: CONFIG_MAPS,
    namespace: "default",
    onChange: () => {},
  });
  const { replaced } = connection;
  const clock = createNotingClock();
  const catchUp = createCatchUp({
    clock,
    signal,
    replaced,
    random,
    reflectors: () => [reflector],
  });
  keepLease({
    ...shared,
    clock: systemClock,
    client: createClient(connection, { timeoutMs: 5_000 }),
    name: "mac-1",
    namespace: "default",
    holder: "mac-1_a",
    renewMs,
    onFailure: () => {
      failures += 1;
    },
    onResponse: (failedAtMs) => {
      renewals.push(failedAtMs);
      catchUp.answered(failedAtMs);
    },
  });
  return {
    renewals,
    relistDelays: () => clock.waits.map(({ delayMs }) => delayMs),
    failures: () => failures,
    x: () => reflector.get("default/a")?.data?.x,
    lists: () => connection.requests.filter(({ isList }) => isList),
    watches: () => connection.requests.filter(({ isWatch }) => isWatch).length,
  };
}

it("after an outage that failed renewals, a watch on a dead connection lists again, once", async () => {
  await using host = await hostBehindProxy(Math.random, 500);
  const { direct, proxy } = host;
  proxy.stall(true);
  const before = host.renewals.length;
  await put(direct, "2");
  await vi.waitFor(() => expect(host.failures()).toBeGreaterThan(0), within);
  expect(host.x()).toBe("1");
  proxy.stall(false);
  await vi.waitFor(() => expect(host.renewals.slice(before)).toContainEqual(expect.any(Number)), within);
  await vi.waitFor(() => expect(host.x()).toBe("2"), within);
  expect(host.relistDelays()).toHaveLength(1);
  expect(host.relistDelays()[0]).toBeLessThanOrEqual(2_000);
  expect(host.lists()).toHaveLength(2);
});

it("after an outage too short to fail a renewal, a watch in backoff retries at the next renewal, without a list", async () => {
  await using host = await hostBehindProxy(() => 0, 5_000);
  const { direct, proxy } = host;
  // Only what stands open is cut, and the one attempt right after it: the next renewal is seconds away, however busy
  // the machine is.
  await vi.waitFor(() => expect(host.renewals.length).toBeGreaterThan(QUICK_RENEWALS), within);
  const answered = host.renewals.length;
  await vi.waitFor(() => expect(host.renewals.length).toBeGreaterThan(answered), { ...within, interval: 1 });
  const opened = host.watches();
  proxy.refuse(true);
  proxy.cut();
  await vi.waitFor(() => expect(proxy.open()).toBe(0), { ...within, interval: 1 });
  proxy.refuse(false);
  await put(direct, "2");
  await vi.waitFor(() => expect(host.x()).toBe("2"), within);
  expect(host.watches()).toBeGreaterThan(opened);
  expect(host.renewals.slice(answered).every((failedAtMs) => failedAtMs === undefined)).toBe(true);
});
