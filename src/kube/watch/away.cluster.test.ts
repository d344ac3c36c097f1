/** An API server that is away for a moment, without its etcd, or back with an older history. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, vi } from "vitest";
import { controlPlaneLayoutOf } from "../../../local/control-plane/state/layout.ts";
import { pidsNaming } from "../../../test/bed/leftovers.ts";
import { oneCluster, type PrivateCluster, startCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import { connectNoted, maxWithin, type NotedConnection } from "../../../test/fixtures/noted-connection.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import type { ConfigMap } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import { type ReflectorOptions, startReflector } from "./reflector.ts";
import { createNotingClock, pausedBefore } from "./testing/noting-clock.ts";

const shared = oneCluster({ crds: false });
const within = { timeout: 60_000, interval: 20 };
function watchMaps(
  connection: NotedConnection,
  signal: AbortSignal,
  more: Partial<ReflectorOptions<ConfigMap>> = {},
) {
  const reflector = startReflector({
    connection,
    signal,
    clock: systemClock,
    log: quietLog,
    kind: CONFIG_MAPS,
    namespace: "default",
    onChange: () => {},
    ...more,
  });
  return { connection, reflector, x: (name: string) => reflector.get(`default/${name}`)?.data?.x };
}

async function put(connection: NotedConnection, name: string, x: string): Promise<void> {
  const object = { metadata: { namespace: "default", name }, data: { x } };
  const result = await createClient(connection).apply(CONFIG_MAPS, object, { manager: "test" });
  if (!result.ok) throw new Error(result.error.message);
}

const WATCHERS = 50;

it("fifty watchers whose place in history is gone list once each, and not in one instant", async () => {
  const cluster = shared();
  await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
  using direct = await connectNoted(cluster.kubeconfig);
  await put(direct, "a", "1");
  const ending = new AbortController();
  const connections = await Promise.all(
    Array.from({ length: WATCHERS }, () => connectNoted(proxy.kubeconfig)),
  );
  const watched = connections.map((connection) => {
    const clock = createNotingClock();
    return { ...watchMaps(connection, ending.signal, { clock }), clock };
  });
  await Promise.all(watched.map(({ reflector }) => reflector.whenSynced()));
  for (const { connection, clock } of watched) {
    connection.requests.length = 0;
    clock.waits.length = 0;
  }
  proxy.refuse(true);
  proxy.cut();
  for (let round = 0; round < 20; round += 1) await put(direct, "a", `2-${round}`);
  await cluster.compact();
  await cluster.stopApiServer(); // its watch cache would still know the history
  await cluster.startApiServer();
  proxy.refuse(false);
  await vi.waitFor(() => {
    for (const { x } of watched) expect(x("a")).toBe("2-19");
  }, within);
  const lists = connections.map(({ requests }) => requests.filter(({ isList }) => isList));
  expect(lists.map(({ length }) => length)).toEqual(lists.map(() => 1));
  const moments = watched.map(({ clock }, index) => pausedBefore(clock, lists[index]?.[0]?.atMs ?? 0));
  expect(maxWithin(moments, 100)).toBeLessThan(WATCHERS / 3);
  ending.abort();
  for (const connection of connections) connection.close();
});

it("an API server without its etcd is an outage with a cause, and nothing that happened in it is missed", async () => {
  const cluster = shared();
  using connection = await connectNoted(cluster.kubeconfig);
  const ending = new AbortController();
  const { x, reflector } = watchMaps(connection, ending.signal);
  await put(connection, "a", "1");
  await vi.waitFor(() => expect(x("a")).toBe("1"), within);
  const etcd = pidsNaming(cluster.dir, "--listen-client-urls");
  expect(etcd.length).toBeGreaterThan(0);
  for (const pid of etcd) process.kill(pid, "SIGSTOP");
  const client = createClient(connection, { timeoutMs: 2_000 });
  const object = { metadata: { namespace: "default", name: "b" }, data: { x: "1" } };
  const failure = await vi.waitFor(async () => {
    const result = await client.apply(CONFIG_MAPS, object, { manager: "test" });
    if (result.ok) throw new Error("it works without etcd");
    return result.error;
  }, within);
  expect(["unavailable", "unreachable"]).toContain(failure.kind);
  expect(x("a")).toBe("1");
  for (const pid of etcd) process.kill(pid, "SIGCONT");
  await vi.waitFor(() => put(connection, "b", "2"), within);
  await vi.waitFor(() => expect(x("b")).toBe("2"), within);
  expect(reflector.list().map(({ metadata }) => metadata.name)).toContain("a");
  ending.abort();
});

it("an API server that was an etcd that was restored from an older backup is trusted", async () => {
  const dir = mkdtempSync(path.join(tmpdir(), "metalbridge-restored-"));
  const copy = `${dir}-copy`;
  const data = controlPlaneLayoutOf(dir).etcdData;
  const begin = async (): Promise<PrivateCluster> => startCluster({ crds: false, dir });
  const first = await begin();
  const connection = await connectNoted(first.kubeconfig);
  await put(connection, "a", "old");
  await first[Symbol.asyncDispose]();
  cpSync(data, copy, { recursive: true });

  const second = await begin();
  const ending = new AbortController();
  const { x } = watchMaps(connection, ending.signal, { silenceMs: 5_000 });
  for (let round = 0; round < 50; round += 1)
    await vi.waitFor(() => put(connection, "a", `new-${round}`), within);
  await put(connection, "b", "new");
  await vi.waitFor(() => expect([x("a"), x("b")]).toEqual(["new-49", "new"]), within);
  await second[Symbol.asyncDispose]();
  rmSync(data, { recursive: true });
  cpSync(copy, data, { recursive: true });

  const third = await begin();
  try {
    await vi.waitFor(() => expect([x("a"), x("b")]).toEqual(["old", undefined]), within);
    await put(connection, "c", "1");
    await vi.waitFor(() => expect(x("c")).toBe("1"), within);
  } finally {
    ending.abort();
    connection.close();
    await third[Symbol.asyncDispose]();
    rmSync(dir, { recursive: true });
    rmSync(copy, { recursive: true });
  }
});
