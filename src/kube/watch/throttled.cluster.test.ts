/** Many watchers throttled by API priority and fairness: each honors Retry-After, none in step with the others. */
import { randomBytes } from "node:crypto";
import { request } from "node:https";
import { expect, it, vi } from "vitest";
import { writeTokenKubeconfig } from "../../../test/bed/identity.ts";
import { startCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import {
  connectNoted,
  maxWithin,
  type NotedConnection,
  type NotedRequest,
} from "../../../test/fixtures/noted-connection.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { keepLease } from "../lease/lease.ts";
import { systemClock } from "../system-clock.ts";
import type { ApiFailure } from "../types.ts";
import { startReflector } from "./reflector.ts";
import { createNotingClock, pausedBefore } from "./testing/noting-clock.ts";

const within = { timeout: 60_000, interval: 20 };
const WATCHERS = 30;

/** One request of this user at a time, and no queue: a level without seats still serves one that comes alone. */
function shutOut(user: string): readonly object[] {
  const name = "no-seats";
  const api = "flowcontrol.apiserver.k8s.io/v1";
  const level = {
    apiVersion: api,
    kind: "PriorityLevelConfiguration",
    metadata: { name },
    spec: {
      type: "Limited",
      limited: {
        nominalConcurrencyShares: 0,
        lendablePercent: 0,
        borrowingLimitPercent: 0,
        limitResponse: { type: "Reject" },
      },
    },
  };
  const rule = { verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true };
  const flow = {
    apiVersion: api,
    kind: "FlowSchema",
    metadata: { name },
    spec: {
      matchingPrecedence: 2,
      priorityLevelConfiguration: { name },
      rules: [{ subjects: [{ kind: "User", user: { name: user } }], resourceRules: [rule] }],
    },
  };
  return [level, flow];
}

function watchMaps(connection: NotedConnection, signal: AbortSignal) {
  const failures: ApiFailure[] = [];
  const clock = createNotingClock();
  const reflector = startReflector({
    connection,
    signal,
    clock,
    log: quietLog,
    kind: CONFIG_MAPS,
    namespace: "default",
    onChange: () => {},
    onFailure: (failure) => failures.push(failure),
  });
  return { connection, reflector, failures, clock };
}

const LARGE_MAPS = 24;

/** More than the buffers between a server and a client that does not read can hold. */
async function fill(kubeconfig: string): Promise<void> {
  using connection = await connectNoted(kubeconfig);
  const client = createClient(connection);
  for (let index = 0; index < LARGE_MAPS; index += 1) {
    const metadata = { namespace: "kube-public", name: `large-${index}` };
    const made = await client.create(CONFIG_MAPS, {
      metadata,
      data: { x: randomBytes(450_000).toString("hex") },
    });
    if (!made.ok) throw new Error(made.error.message);
  }
}

/** A list whose response is not read: it is in work until the result is called. */
function takeSeat(port: number, token: string, flow: string): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const call = request({
      host: "127.0.0.1",
      port,
      path: "/api/v1/namespaces/kube-public/configmaps",
      agent: false,
      rejectUnauthorized: false,
      headers: { authorization: `Bearer ${token}` },
    });
    call.once("response", (response) => {
      response.pause();
      response.on("error", () => {});
      const isOurs = response.headers["x-kubernetes-pf-flowschema-uid"] === flow;
      if (response.statusCode === 200 && isOurs) return resolve(() => response.destroy());
      response.destroy();
      reject(new Error(`the slow list was answered with ${response.statusCode}; of our level: ${isOurs}`));
    });
    call.once("error", reject);
    call.end();
  });
}

/** A Lease that cannot be renewed. */
async function keepNoted(kubeconfig: string, signal: AbortSignal): Promise<NotedConnection> {
  const connection = await connectNoted(kubeconfig);
  const shared = { client: createClient(connection), clock: systemClock, log: quietLog, signal };
  keepLease({ ...shared, name: "mac-1", namespace: "default", holder: "mac-1_a" });
  signal.addEventListener("abort", connection.close, { once: true });
  return connection;
}

function gapsOf(requests: readonly NotedRequest[]): number[] {
  return requests.slice(1).map(({ atMs }, index) => atMs - (requests[index]?.atMs ?? 0));
}

it("429 with Retry-After is waited for, with jitter, by watches and Leases", async () => {
  await using cluster = await startCluster({
    crds: false,
    apiServerArgs: ["--enable-priority-and-fairness=true"],
  });
  await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
  const { objects } = cluster;
  const [rbac, metadata] = ["rbac.authorization.k8s.io", { name: "host" }];
  await objects.apply(
    { apiVersion: "v1", kind: "ServiceAccount", metadata },
    {
      ...{ apiVersion: `${rbac}/v1`, kind: "ClusterRoleBinding", metadata },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name: "cluster-admin" },
      subjects: [{ kind: "ServiceAccount", name: "host", namespace: "default" }],
    },
  );
  const token = await objects.token("default", "host");
  const kubeconfig = `${cluster.dir}/host.kubeconfig`;
  await writeTokenKubeconfig(proxy, token, kubeconfig);
  const ending = new AbortController();
  const connections = await Promise.all(Array.from({ length: WATCHERS }, () => connectNoted(kubeconfig)));
  const watched = connections.map((connection) => watchMaps(connection, ending.signal));
  await Promise.all(watched.map(({ reflector }) => reflector.whenSynced()));

  await fill(cluster.kubeconfig);
  await objects.apply(...shutOut("system:serviceaccount:default:host"));
  const [first] = connections;
  if (first === undefined) throw new Error("no connection watches");
  const client = createClient(first);
  const flow = (await objects.get("", "flowschema/no-seats")).metadata.uid;
  // The API server follows a moment after the rule is stored: a seat of the level before would be no use.
  const release = await vi.waitFor(() => takeSeat(cluster.port, token, flow), within);
  const refused = await vi.waitFor(async () => {
    const result = await client.get(CONFIG_MAPS, { namespace: "default", name: "none" });
    expect(result).toMatchObject({ error: { kind: "throttled", status: 429 } });
    return result;
  }, within);
  expect(refused).toMatchObject({ error: { retryAfterMs: 1_000 } });

  for (const { connection, clock } of watched) {
    connection.requests.length = 0;
    clock.waits.length = 0;
  }
  const leased = keepNoted(kubeconfig, ending.signal);
  proxy.cut();
  await vi.waitFor(
    () => {
      for (const { connection } of watched.slice(1))
        expect(connection.requests.length).toBeGreaterThanOrEqual(4);
    },
    { timeout: 60_000, interval: 20 },
  );
  for (const { connection, failures } of watched.slice(1)) {
    expect(failures.at(-1)).toMatchObject({ kind: "throttled" });
    expect(Math.min(...gapsOf(connection.requests))).toBeGreaterThanOrEqual(999);
  }
  const thirds = watched
    .slice(1)
    .map(({ connection, clock }) => pausedBefore(clock, connection.requests[2]?.atMs ?? 0));
  expect(maxWithin(thirds, 100)).toBeLessThan(WATCHERS / 2);
  const { requests } = await leased;
  await vi.waitFor(() => expect(requests.length).toBeGreaterThan(2), within);
  expect(Math.min(...gapsOf(requests))).toBeGreaterThanOrEqual(999);

  release();
  await objects.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seen" } });
  await vi.waitFor(
    () => {
      for (const { reflector } of watched) expect(reflector.get("default/seen")).toBeDefined();
    },
    { timeout: 60_000, interval: 20 },
  );
  ending.abort();
  for (const connection of connections) connection.close();
});
