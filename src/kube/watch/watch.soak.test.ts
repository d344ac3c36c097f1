/** A watch through thousands of failures: it costs no more memory, sockets or log lines at the end than at the start. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it, vi } from "vitest";
import { oneCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import { connectNoted } from "../../../test/fixtures/noted-connection.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { connect, type KubeConnection } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { keepLease } from "../lease/lease.ts";
import type { ConfigMap } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import { type ReflectorOptions, startReflector } from "./reflector.ts";

const shared = oneCluster({ crds: false });
const within = { timeout: 60_000, interval: 2 };
/** Waits are this many times shorter. */
const hurriedBy = (factor: number): Clock => ({
  ...systemClock,
  after: (delayMs, fire) => systemClock.after(delayMs / factor, fire),
});

function watchMaps(connection: KubeConnection, options: Partial<ReflectorOptions<ConfigMap>>) {
  const ending = new AbortController();
  const reflector = startReflector({
    connection,
    clock: systemClock,
    log: quietLog,
    signal: ending.signal,
    kind: CONFIG_MAPS,
    namespace: "default",
    onChange: () => {},
    silenceMs: 9e6,
    ...options,
  });
  const dataOf = (name: string) => reflector.get(`default/${name}`)?.data?.x;
  return { reflector, dataOf, signal: ending.signal, [Symbol.dispose]: () => ending.abort() };
}

async function put(connection: KubeConnection, name: string, x: string): Promise<void> {
  const object = { metadata: { namespace: "default", name }, data: { x } };
  const result = await createClient(connection).apply(CONFIG_MAPS, object, { manager: "test" });
  if (!result.ok) throw new Error(result.error.message);
}

/** What is left after a collection is what is held; the flag only counts where a context is made. */
function measure() {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const handles = process.getActiveResourcesInfo().filter((name) => /TCP|TLS|Socket/.test(name)).length;
  return { heap: process.memoryUsage().heapUsed, handles };
}

it("reconnects 1,000 times without growing in sockets, handles or memory", async () => {
  const cluster = shared();
  await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
  using direct = await connectNoted(cluster.kubeconfig);
  const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
  using watched = watchMaps(connection, { clock: hurriedBy(3_000) });
  await watched.reflector.whenSynced();
  const reconnect = async (times: number) => {
    for (let round = 0; round < times; round += 1) {
      const before = proxy.accepted();
      proxy.cut();
      await vi.waitFor(() => expect(proxy.accepted()).toBeGreaterThan(before), { ...within, interval: 1 });
      if (round % 20 !== 0) continue;
      await put(direct, "a", `${times}-${round}`);
      await vi.waitFor(() => expect(watched.dataOf("a")).toBe(`${times}-${round}`), within);
    }
    direct.requests.length = 0;
  };
  await reconnect(100);
  const before = measure();
  await reconnect(1_000);
  const after = measure();
  expect(watched.reflector.interruptions()).toBeGreaterThan(1_000);
  expect(proxy.open()).toBeLessThanOrEqual(2);
  expect(after.handles).toBeLessThanOrEqual(before.handles + 4);
  expect(after.heap - before.heap).toBeLessThan(8 * 1024 * 1024);
  connection.close();
});

/** Attempts of half a minute each, which pass in milliseconds. */
const ATTEMPTS = 10_000;
/** A machine under load makes 25 attempts a second. */
const PATIENCE_MS = 10 * 60_000;

it("retries for days against refused connections without memory, sockets or log lines", {
  timeout: 2 * PATIENCE_MS,
}, async () => {
  const cluster = shared();
  await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
  using direct = await connectNoted(cluster.kubeconfig);
  using connection = await connectNoted(proxy.kubeconfig);
  const lines: string[] = [];
  const line = (_data: object, message: string) => void lines.push(message);
  const log: Log = { debug() {}, info: line, warn: line, error: line, child: () => log };
  const clock = hurriedBy(30_000);
  using watched = watchMaps(connection, { clock, log, silenceMs: 9e9 });
  const shares = { client: createClient(connection), clock, log, signal: watched.signal };
  keepLease({ ...shares, name: "mac-1", namespace: "default", holder: "mac-1_a", renewMs: 9e8 });
  await watched.reflector.whenSynced();
  proxy.refuse(true);
  proxy.cut();
  const untilAttempts = async (count: number) => {
    connection.requests.length = 0;
    const patiently = { timeout: PATIENCE_MS, interval: 10 };
    await vi.waitFor(() => expect(connection.requests.length).toBeGreaterThan(count), patiently);
  };
  await untilAttempts(1_000);
  const before = measure();
  lines.length = 0;
  await untilAttempts(ATTEMPTS);
  const after = measure();
  connection.requests.length = 0;
  expect(lines).toEqual([]);
  expect(after.handles).toBeLessThanOrEqual(before.handles + 2);
  expect(after.heap - before.heap).toBeLessThan(8 * 1_024 * 1_024);
  proxy.refuse(false);
  await put(direct, "b", "1");
  await vi.waitFor(() => expect(watched.dataOf("b")).toBe("1"), within);
});
