import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it, vi } from "vitest";
import { type PrivateCluster, sharedCluster, startCluster } from "../../../test/cluster/cluster.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import type { Clock, Log } from "../../ports.ts";
import { connect, type KubeConnection } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import type { ConfigMap } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import type { ApiFailure, Kind, KubeObject } from "../types.ts";
import { type ReflectorOptions, startReflector } from "./reflector.ts";

const silent: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => silent };
const within = { timeout: 30_000, interval: 20 };

/** A clock whose waits are thousands of times shorter, for tests of many attempts. */
const hurried: Clock = { ...systemClock, after: (delayMs, fire) => systemClock.after(delayMs / 3_000, fire) };

function watchMaps(
  connection: KubeConnection,
  namespace: string,
  more: Partial<ReflectorOptions<ConfigMap>> = {},
) {
  const ending = new AbortController();
  const troubles: ApiFailure[] = [];
  const changes: string[] = [];
  const reflector = startReflector({
    connection,
    kind: CONFIG_MAPS,
    namespace,
    clock: systemClock,
    log: silent,
    signal: ending.signal,
    onChange: (key, object) => changes.push(`${key.split("/")[1]}=${object?.data?.x ?? "gone"}`),
    onTrouble: (failure) => troubles.push(failure),
    ...more,
  });
  const dataOf = (name: string) => reflector.get(`${namespace}/${name}`)?.data?.x;
  return { reflector, changes, troubles, dataOf, [Symbol.dispose]: () => ending.abort() };
}

async function put(connection: KubeConnection, namespace: string, name: string, x: string): Promise<void> {
  const result = await createClient(connection).apply(
    CONFIG_MAPS,
    { metadata: { namespace, name }, data: { x } },
    { manager: "test" },
  );
  if (!result.ok) throw new Error(result.error.message);
}

async function opened(cluster: PrivateCluster) {
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  return Object.assign(connection, { [Symbol.dispose]: () => connection.close() });
}

describe("a reflector on a healthy API server", () => {
  it("lists, follows changes and survives handlers that throw", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
    await put(connection, namespace.name, "a", "1");
    const seen: string[] = [];
    using watched = watchMaps(connection, namespace.name, {
      fieldSelector: "metadata.name!=kube-root-ca.crt",
      onChange: (key, object, before) => {
        seen.push(`${key.split("/")[1]} ${before?.data?.x ?? "-"}>${object?.data?.x ?? "-"}`);
        throw new Error("a handler's own trouble");
      },
    });
    await watched.reflector.whenSynced();
    expect(watched.reflector.isSynced()).toBe(true);
    await put(connection, namespace.name, "a", "2 – ü 漢字 🙂".repeat(2_000));
    await put(connection, namespace.name, "a", "3");
    await createClient(connection).remove(CONFIG_MAPS, { namespace: namespace.name, name: "a" });
    await vi.waitFor(() => expect(seen.at(-1)).toBe("a 3>-"), within);
    expect(seen[0]).toBe("a ->1");
    expect(seen).toHaveLength(4);
    expect(watched.reflector.list()).toEqual([]);
    expect(watched.reflector.interruptions()).toBe(0);
    connection.close();
  });

  it("waits for a kind that is not installed yet, and begins when it is", async () => {
    await using cluster = await startCluster({ crds: false });
    using connection = await opened(cluster);
    const hosts: Kind<KubeObject> = {
      group: "metalbridge.dev",
      version: "v1alpha1",
      plural: "hosts",
      kind: "Host",
      namespaced: false,
    };
    const ending = new AbortController();
    const troubles: ApiFailure[] = [];
    const reflector = startReflector({
      connection,
      kind: hosts,
      clock: systemClock,
      log: silent,
      signal: ending.signal,
      onChange: () => {},
      onTrouble: (failure) => troubles.push(failure),
    });
    await vi.waitFor(() => expect(troubles.length).toBeGreaterThan(1), within);
    expect(troubles[0]).toMatchObject({ kind: "unavailable", reason: "KindNotInstalled" });
    expect(reflector.isSynced()).toBe(false);
    await cluster.installCrds();
    await reflector.whenSynced();
    ending.abort();
  });
});

describe("a reflector through faults", () => {
  it("goes on after the API server is killed and comes back, and after it was away for a while", async () => {
    await using cluster = await startCluster({ crds: false });
    using connection = await opened(cluster);
    using watched = watchMaps(connection, "default");
    await watched.reflector.whenSynced();
    cluster.killApiServer();
    await vi.waitFor(() => expect(watched.reflector.interruptions()).toBeGreaterThan(0), within);
    await vi.waitFor(() => put(connection, "default", "a", "1"), within);
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    await cluster.stopApiServer();
    await vi.waitFor(() => expect(watched.troubles.length).toBeGreaterThan(2), within);
    expect(watched.dataOf("a")).toBe("1");
    await cluster.startApiServer();
    await vi.waitFor(() => put(connection, "default", "a", "2"), within);
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("2"), within);
    expect(watched.changes.filter((change) => change === "a=1")).toHaveLength(1);
  });

  it("lists anew after etcd was compacted beyond the place where it stood", async () => {
    await using cluster = await startCluster({ crds: false });
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    await put(direct, "default", "a", "1");
    using watched = watchMaps(connection, "default");
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    proxy.refuse(true);
    proxy.cut();
    await put(direct, "default", "a", "2");
    await put(direct, "default", "b", "1");
    await createClient(direct).remove(CONFIG_MAPS, { namespace: "default", name: "a" });
    await cluster.compact();
    await cluster.stopApiServer(); // its watch cache would still know the history
    await cluster.startApiServer();
    proxy.refuse(false);
    await vi.waitFor(() => expect(watched.dataOf("b")).toBe("1"), within);
    expect(watched.dataOf("a")).toBeUndefined();
    expect(watched.changes.filter((change) => change.startsWith("a="))).toEqual(["a=1", "a=gone"]);
    connection.close();
  });

  it("notices a connection that is open but dead, and resumes", async () => {
    await using cluster = await startCluster({ crds: false });
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    using watched = watchMaps(connection, "default", { silenceMs: 1_000, listTimeoutMs: 1_000 });
    await watched.reflector.whenSynced();
    await put(direct, "default", "b", "1");
    await vi.waitFor(() => expect(watched.dataOf("b")).toBe("1"), within);
    proxy.stall(true);
    await put(direct, "default", "a", "1");
    await vi.waitFor(
      () => expect(watched.troubles.some(({ reason }) => reason === "Silent")).toBe(true),
      within,
    );
    expect(watched.dataOf("a")).toBeUndefined();
    proxy.stall(false);
    proxy.cut();
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    connection.close();
  });

  it("lists at once when it is told to, at the end of a dead connection and in the middle of a wait", async () => {
    await using cluster = await startCluster({ crds: false });
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    let lists = 0;
    const onListed = () => {
      lists += 1;
    };
    // Nothing but the order ends the silence or the wait in this test's time.
    const slow: Clock = {
      ...systemClock,
      after: (delayMs, fire) => systemClock.after(delayMs * 1_000, fire),
    };
    using watched = watchMaps(connection, "default", { clock: slow, onListed });
    await watched.reflector.whenSynced();
    proxy.stall(true);
    await put(direct, "default", "asleep", "1");
    proxy.stall(false);
    const before = watched.reflector.interruptions();
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.dataOf("asleep")).toBe("1"), within);
    expect(lists).toBe(2);
    expect(watched.reflector.interruptions()).toBeGreaterThan(before);

    proxy.refuse(true);
    proxy.cut();
    await vi.waitFor(() => expect(watched.troubles).toHaveLength(1), within);
    proxy.refuse(false);
    await put(direct, "default", "asleep", "2");
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.dataOf("asleep")).toBe("2"), within);
    connection.close();
  });

  it("goes on asking for a list that was ordered, also where the first try fails", async () => {
    await using cluster = await startCluster({ crds: false });
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    let lists = 0;
    const onListed = () => {
      lists += 1;
    };
    using watched = watchMaps(connection, "default", { onListed });
    await watched.reflector.whenSynced();
    proxy.refuse(true);
    proxy.cut();
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.troubles.length).toBeGreaterThan(1), within);
    proxy.refuse(false);
    await vi.waitFor(() => expect(lists).toBe(2), within);
    connection.close();
  });

  it("comes back 1,000 times without growing in sockets, handles or memory", async () => {
    await using cluster = await startCluster({ crds: false });
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    using watched = watchMaps(connection, "default", {
      clock: hurried,
      silenceMs: 9_000_000,
      onChange: () => {},
    });
    await watched.reflector.whenSynced();
    const reconnect = async (times: number) => {
      for (let round = 0; round < times; round += 1) {
        const before = proxy.accepted();
        proxy.cut();
        await vi.waitFor(() => expect(proxy.accepted()).toBeGreaterThan(before), {
          timeout: 20_000,
          interval: 1,
        });
        if (round % 20 !== 0) continue;
        await put(direct, "default", "a", `${times}-${round}`);
        await vi.waitFor(() => expect(watched.dataOf("a")).toBe(`${times}-${round}`), {
          ...within,
          interval: 2,
        });
      }
    };
    const measure = () => {
      collectGarbage();
      const handles = process.getActiveResourcesInfo().filter((name) => /TCP|TLS|Socket/.test(name)).length;
      return { heap: process.memoryUsage().heapUsed, handles };
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
  }, 120_000);
});

/** What is left after a collection is what is held; the flag is only looked at when a context is made. */
function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}
