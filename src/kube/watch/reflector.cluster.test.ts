import { describe, expect, it, vi } from "vitest";
import { objectsOf } from "../../../test/bed/objects.ts";
import { oneCluster, type PrivateCluster, sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import type { Clock, Log } from "../../util/ports.ts";
import { connect, type KubeConnection } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import type { ConfigMap } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import type { ApiFailure, Kind, KubeObject } from "../types.ts";
import { type ReflectorOptions, startReflector } from "./reflector.ts";

const NO_WATCHES: ApiFailure = { kind: "unavailable", status: 503, reason: "Test", message: "no watches" };
const within = { timeout: 60_000, interval: 20 };
const ownCluster = oneCluster({ crds: false });

function watchMaps(
  connection: KubeConnection,
  namespace: string,
  more: Partial<ReflectorOptions<ConfigMap>> = {},
) {
  const ending = new AbortController();
  const failures: ApiFailure[] = [];
  const changes: string[] = [];
  const reflector = startReflector({
    connection,
    kind: CONFIG_MAPS,
    namespace,
    clock: systemClock,
    log: quietLog,
    signal: ending.signal,
    onChange: (key, object) => changes.push(`${key.split("/")[1]}=${object?.data?.x ?? "gone"}`),
    onFailure: (failure) => failures.push(failure),
    ...more,
  });
  const dataOf = (name: string) => reflector.get(`${namespace}/${name}`)?.data?.x;
  return { reflector, changes, failures, dataOf, [Symbol.dispose]: () => ending.abort() };
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

  it("does not report a quiet watch while the server answers, nor list again", async () => {
    await using namespace = await sharedCluster().namespace();
    const opens: number[] = [];
    const connection = await connect({
      kubeconfigPath: sharedCluster().kubeconfig,
      onResponse: (verb, status) => void (verb === "WATCH" && opens.push(status)),
    });
    const lists: number[] = [];
    const warnings: unknown[] = [];
    const log = { ...quietLog, warn: (...said: unknown[]) => void warnings.push(said) };
    using watched = watchMaps(connection, namespace.name, {
      silenceMs: 300,
      log: log as Log,
      onListed: () => void lists.push(1),
      fieldSelector: "metadata.name!=kube-root-ca.crt",
    });
    await vi.waitFor(() => expect(opens.length).toBeGreaterThan(5), within);
    await put(connection, namespace.name, "a", "1");
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    expect(new Set(opens)).toEqual(new Set([200]));
    expect([watched.failures, warnings, lists, watched.reflector.interruptions()]).toEqual([[], [], [1], 0]);
    connection.close();
  });

  it("waits for a kind that is not installed yet, and begins when it is; without the kind, it has no objects", async () => {
    const cluster = ownCluster();
    using connection = await opened(cluster);
    const hosts: Kind<KubeObject> = {
      group: "metalbridge.dev",
      version: "v1alpha1",
      plural: "hosts",
      kind: "Host",
      namespaced: false,
    };
    const ending = new AbortController();
    const failures: ApiFailure[] = [];
    const removed: string[] = [];
    const state = { isInstalled: true, hasWatches: true };
    const reflector = startReflector({
      connection: {
        ...connection,
        stream: async (request) =>
          state.hasWatches ? await connection.stream(request) : { ok: false, error: NO_WATCHES },
      },
      kind: hosts,
      clock: systemClock,
      log: quietLog,
      signal: ending.signal,
      isOptional: true,
      isInstalled: () => state.isInstalled,
      onChange: (key, object) => void (object ?? removed.push(key)),
      onFailure: (failure) => failures.push(failure),
    });
    await vi.waitFor(() => expect(failures.length).toBeGreaterThan(1), within);
    expect(failures[0]).toMatchObject({ kind: "unavailable", reason: "KindNotInstalled" });
    expect(reflector.isSynced()).toBe(false);
    await cluster.installCrds();
    await reflector.whenSynced();

    const host = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: "studio" } };
    using objects = objectsOf(cluster.kubeconfig);
    await objects.apply(host);
    await vi.waitFor(() => expect(reflector.get("studio")).toBeDefined(), within);
    // The watch misses the end of the object, as one that is opened again while its kind is removed.
    state.hasWatches = false;
    reflector.relist();
    await vi.waitFor(() => expect(failures).toContain(NO_WATCHES), within);
    await objects.remove("", "crd/hosts.metalbridge.dev");
    const before = failures.length;
    reflector.relist();
    const isKindMissing = () =>
      expect(failures.slice(before).map(({ reason }) => reason)).toContain("KindNotInstalled");
    await vi.waitFor(isKindMissing, within);
    expect(reflector.get("studio"), "a server that starts may not know the kind yet").toBeDefined();
    state.isInstalled = false;
    reflector.relist();
    await vi.waitFor(() => expect(removed).toEqual(["studio"]), within);
    expect(reflector.list()).toEqual([]);
    ending.abort();
  });
});

describe("a reflector through faults", () => {
  it("resumes after the API server is killed and restarted, and after a longer outage", async () => {
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
    using connection = await opened(cluster);
    using watched = watchMaps(connection, namespace);
    await watched.reflector.whenSynced();
    cluster.killApiServer();
    await vi.waitFor(() => expect(watched.reflector.interruptions()).toBeGreaterThan(0), within);
    await vi.waitFor(() => put(connection, namespace, "a", "1"), within);
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    await cluster.stopApiServer();
    await vi.waitFor(() => expect(watched.failures.length).toBeGreaterThan(2), within);
    expect(watched.dataOf("a")).toBe("1");
    await cluster.startApiServer();
    await vi.waitFor(() => put(connection, namespace, "a", "2"), within);
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("2"), within);
    expect(watched.changes.filter((change) => change === "a=1")).toHaveLength(1);
  });

  it("lists again after etcd was compacted past its resourceVersion", async () => {
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    await put(direct, namespace, "a", "1");
    // A restart takes long on a busy machine: the backoff that has grown by then must not decide.
    const clock: Clock = { ...systemClock, after: (ms, fire) => systemClock.after(ms / 20, fire) };
    using watched = watchMaps(connection, namespace, { clock, silenceMs: 9e6, listTimeoutMs: 9e5 });
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    proxy.refuse(true);
    proxy.cut();
    await put(direct, namespace, "a", "2");
    await put(direct, namespace, "b", "1");
    await createClient(direct).remove(CONFIG_MAPS, { namespace, name: "a" });
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
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    using watched = watchMaps(connection, namespace, { silenceMs: 1_000, listTimeoutMs: 1_000 });
    await watched.reflector.whenSynced();
    await put(direct, namespace, "b", "1");
    await vi.waitFor(() => expect(watched.dataOf("b")).toBe("1"), within);
    proxy.stall(true);
    await put(direct, namespace, "a", "1");
    await vi.waitFor(() => expect(watched.failures.length).toBeGreaterThan(0), within);
    expect(watched.failures[0]?.message).toMatch(
      /^the watch of configmaps received no data for 1 s, and reading configmaps failed: https:.*no response within 1000 ms$/,
    );
    expect(watched.dataOf("a")).toBeUndefined();
    proxy.stall(false);
    proxy.cut();
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    connection.close();
  });

  it("reopens a watch behind which the server is gone, where others reach it, without a warning", async () => {
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using direct = await opened(cluster);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    using watched = watchMaps(connection, namespace, { silenceMs: 2_000, listTimeoutMs: 5_000 });
    await watched.reflector.whenSynced();
    // By the watch: it is open when it is cut off.
    await put(direct, namespace, "b", "1");
    await vi.waitFor(() => expect(watched.dataOf("b")).toBe("1"), within);
    proxy.stallOpen();
    connection.dropIdle();
    await put(direct, namespace, "a", "1");
    await vi.waitFor(() => expect(watched.dataOf("a")).toBe("1"), within);
    expect(watched.failures).toEqual([]);
    connection.close();
  });

  it("relists at once on request, on a dead connection and during backoff", async () => {
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
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
    using watched = watchMaps(connection, namespace, { clock: slow, onListed });
    await watched.reflector.whenSynced();
    proxy.stall(true);
    await put(direct, namespace, "asleep", "1");
    proxy.stall(false);
    const before = watched.reflector.interruptions();
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.dataOf("asleep")).toBe("1"), within);
    expect(lists).toBe(2);
    expect(watched.reflector.interruptions()).toBeGreaterThan(before);

    proxy.refuse(true);
    proxy.cut();
    await vi.waitFor(() => expect(watched.failures).toHaveLength(1), within);
    proxy.refuse(false);
    await put(direct, namespace, "asleep", "2");
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.dataOf("asleep")).toBe("2"), within);
    connection.close();
  });

  it("retries a requested list if the first attempt fails", async () => {
    const cluster = ownCluster();
    await using place = await cluster.namespace();
    const namespace = place.name;
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    const connection = await connect({ kubeconfigPath: proxy.kubeconfig });
    let lists = 0;
    const onListed = () => {
      lists += 1;
    };
    using watched = watchMaps(connection, namespace, { onListed });
    await watched.reflector.whenSynced();
    proxy.refuse(true);
    proxy.cut();
    watched.reflector.relist();
    await vi.waitFor(() => expect(watched.failures.length).toBeGreaterThan(1), within);
    proxy.refuse(false);
    await vi.waitFor(() => expect(lists).toBe(2), within);
    connection.close();
  });
});
