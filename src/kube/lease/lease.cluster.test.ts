import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, vi } from "vitest";
import { oneCluster, sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { proxyCluster } from "../../../test/fixtures/fault-proxy.ts";
import type { Clock } from "../../util/ports.ts";
import { connect } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { createEventRecorder } from "../event/events.ts";
import { EVENTS, LEASES } from "../kinds.ts";
import type { KubeEvent } from "../objects.ts";
import { systemClock } from "../system-clock.ts";
import type { KubeClient } from "../types.ts";
import { runLeaderElection } from "./leader.ts";
import { type KeepLeaseOptions, keepLease } from "./lease.ts";

const within = { timeout: 60_000, interval: 20 };
const ownCluster = oneCluster({ crds: false });

async function open(kubeconfigPath: string, timeoutMs = 10_000) {
  const connection = await connect({ kubeconfigPath });
  return {
    connection,
    client: createClient(connection, { timeoutMs }),
    [Symbol.dispose]: () => connection.close(),
  };
}

function keep(client: KubeClient, namespace: string, holder: string, more: Partial<KeepLeaseOptions> = {}) {
  const ending = new AbortController();
  const taken: string[] = [];
  let renewals = 0;
  const lease = keepLease({
    client,
    clock: systemClock,
    log: quietLog,
    signal: ending.signal,
    name: "mac-1",
    namespace,
    holder,
    durationSeconds: 2,
    renewMs: 200,
    onTaken: (other) => taken.push(other),
    onRenewed: () => {
      renewals += 1;
    },
    ...more,
  });
  return {
    lease,
    taken,
    renewals: () => renewals,
    end: () => ending.abort(),
    [Symbol.dispose]: () => ending.abort(),
  };
}

describe("the Lease of a host", () => {
  it("is created, renewed with MicroTime, and created again after someone deletes it", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    using opened = await open(cluster.kubeconfig);
    using kept = keep(opened.client, namespace.name, "mac-1_a");
    await vi.waitFor(() => expect(kept.renewals()).toBeGreaterThan(2), within);
    const ref = { namespace: namespace.name, name: "mac-1" };
    const found = await opened.client.get(LEASES, ref);
    expect(found).toMatchObject({ value: { spec: { holderIdentity: "mac-1_a", leaseDurationSeconds: 2 } } });
    if (found.ok) expect(found.value.spec?.renewTime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
    await opened.client.remove(LEASES, ref);
    const before = kept.renewals();
    await vi.waitFor(() => expect(kept.renewals()).toBeGreaterThan(before + 2), within);
    expect(kept.taken).toEqual([]);
  });

  it("is renewed at once when that is asked for, as after a sleep", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    using opened = await open(cluster.kubeconfig);
    // After three quick renewals it would wait for an hour.
    using kept = keep(opened.client, namespace.name, "mac-1_a", {
      durationSeconds: 7_200,
      renewMs: 3_600_000,
    });
    await vi.waitFor(() => expect(kept.renewals()).toBe(4), within);
    kept.lease.renewNow();
    await vi.waitFor(() => expect(kept.renewals()).toBe(5), within);
    kept.end();
    kept.lease.renewNow();
  });

  it("held by another live agent is noticed once, left alone, and taken when the other goes quiet", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    using opened = await open(cluster.kubeconfig);
    // Long enough to renew on a busy machine, short enough to outwait.
    const durationSeconds = 6;
    using first = keep(opened.client, namespace.name, "mac-1_a", { durationSeconds });
    await vi.waitFor(() => expect(first.renewals()).toBeGreaterThan(0), within);
    using second = keep(opened.client, namespace.name, "mac-1_b", { durationSeconds });
    await vi.waitFor(() => expect(second.taken).toEqual(["mac-1_a"]), within);
    const before = first.renewals();
    await vi.waitFor(() => expect(first.renewals()).toBeGreaterThan(before + 35), {
      ...within,
      timeout: 60_000,
    });
    expect(second.lease.isHeld()).toBe(false);
    expect(second.taken).toEqual(["mac-1_a"]);
    first.end();
    await vi.waitFor(() => expect(second.lease.isHeld()).toBe(true), within);
  });

  it("taken away by force is noticed by the one who had it", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    using opened = await open(cluster.kubeconfig);
    using kept = keep(opened.client, namespace.name, "mac-1_a");
    await vi.waitFor(() => expect(kept.renewals()).toBeGreaterThan(0), within);
    const ref = { namespace: namespace.name, name: "mac-1" };
    const steal = [{ op: "replace" as const, path: "/spec/holderIdentity", value: "mac-1_thief" }];
    await opened.client.jsonPatch(LEASES, ref, steal);
    await vi.waitFor(() => expect(kept.taken).toEqual(["mac-1_thief"]), within);
    await vi.waitFor(() => expect(kept.lease.isHeld()).toBe(true), within);
  });

  it("is renewed again after the API server was killed", async () => {
    const cluster = ownCluster();
    using opened = await open(cluster.kubeconfig);
    const failures: string[] = [];
    const onFailure: KeepLeaseOptions["onFailure"] = ({ kind }) => void failures.push(kind);
    using kept = keep(opened.client, "default", "mac-1_a", { onFailure });
    await vi.waitFor(() => expect(kept.renewals()).toBeGreaterThan(0), within);
    cluster.killApiServer();
    await vi.waitFor(() => expect(failures.length).toBeGreaterThan(0), within);
    const before = kept.renewals();
    await vi.waitFor(() => expect(kept.renewals()).toBeGreaterThan(before + 2), within);
    expect(kept.taken).toEqual([]);
  });
});

describe("leader election", () => {
  it("has one leader; it fails over when the leader is cut off, and at once when it steps down", async () => {
    const cluster = ownCluster();
    await using proxy = await proxyCluster(cluster.kubeconfig, cluster.dir);
    using first = await open(proxy.kubeconfig, 4_000);
    using second = await open(cluster.kubeconfig);
    const leaders = new Set<string>();
    const log: string[] = [];
    const run = (client: KubeClient, identity: string, signal: AbortSignal, durationSeconds = 3) =>
      runLeaderElection({
        client,
        clock: systemClock,
        log: quietLog,
        signal,
        name: "controller",
        namespace: "default",
        identity,
        durationSeconds,
        renewDeadlineMs: 2_000,
        retryMs: 200,
        onLead: (leading) => {
          expect(leaders.size).toBe(0);
          leaders.add(identity);
          log.push(identity);
          leading.addEventListener("abort", () => leaders.delete(identity), { once: true });
        },
      });
    const [a, b, c] = [new AbortController(), new AbortController(), new AbortController()];
    const runA = run(first.client, "a", a.signal);
    await vi.waitFor(() => expect(log).toEqual(["a"]), within);
    // Longer than this test waits for a successor: only a released Lease lets one lead.
    const runB = run(second.client, "b", b.signal, 60);
    proxy.stall(true); // the leader's requests hang until long after its deadline
    await vi.waitFor(() => expect(log).toEqual(["a", "b"]), within);
    a.abort();
    const runC = run(second.client, "c", c.signal);
    b.abort();
    await runB;
    await vi.waitFor(() => expect(log).toEqual(["a", "b", "c"]), within);
    c.abort();
    await Promise.all([runA, runC]);
  });
});

describe("events", () => {
  const jumping = (): { clock: Clock; fire: () => void } => {
    const waiting = new Set<() => void>();
    const after: Clock["after"] = (_delay, callback) => {
      waiting.add(callback);
      return () => waiting.delete(callback);
    };
    const fire = () => {
      for (const callback of [...waiting]) {
        waiting.delete(callback);
        callback();
      }
    };
    return { clock: { ...systemClock, after }, fire };
  };

  it("are written once and counted when repeated", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    using opened = await open(cluster.kubeconfig);
    const { clock, fire } = jumping();
    const reporter = { reportingController: "metalbridge.dev/agent", reportingInstance: "mac-1" };
    const record = createEventRecorder({ client: opened.client, clock, ...reporter });
    const regarding = { apiVersion: "v1", kind: "ConfigMap", namespace: namespace.name, name: "a", uid: "u" };
    const say = (note: string) =>
      record(regarding, { type: "Warning", reason: "Crashed", action: "Start", note });
    for (let times = 0; times < 5; times += 1) say(`it ended ${"ü".repeat(900)}`);
    const events = async (): Promise<KubeEvent[]> => {
      const listed = await opened.client.list(EVENTS, { namespace: namespace.name });
      return listed.ok ? listed.value.items : [];
    };
    await vi.waitFor(async () => expect(await events()).toHaveLength(1), within);
    await vi.waitFor(async () => {
      fire();
      expect((await events())[0]?.series?.count).toBe(5);
    }, within);
    expect(await cluster.kubectl(["get", "events", "-n", namespace.name])).toContain("Crashed");
    const [event] = await events();
    await opened.client.remove(EVENTS, { namespace: namespace.name, name: event?.metadata.name ?? "" });
    say(`it ended ${"ü".repeat(900)}`);
    await vi.waitFor(async () => {
      fire();
      expect((await events())[0]?.series?.count).toBe(6);
    }, within);
  });
});

describe("events without an API server", () => {
  it("wait in a bounded queue that keeps the newest, and arrive when it is back", async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    const dir = await mkdtemp(path.join(tmpdir(), "events-"));
    await using proxy = await proxyCluster(cluster.kubeconfig, dir);
    using opened = await open(proxy.kubeconfig);
    const ending = new AbortController();
    const record = createEventRecorder({
      client: opened.client,
      clock: systemClock,
      signal: ending.signal,
      reportingController: "metalbridge.dev/agent",
      reportingInstance: "mac-1",
    });
    const say = (index: number) => {
      const regarding = {
        apiVersion: "v1",
        kind: "ConfigMap",
        namespace: namespace.name,
        name: `m-${index}`,
        uid: "u",
      };
      record(regarding, { type: "Normal", reason: "Ready", action: "Start", note: "it answers" });
    };
    const names = async () => {
      const listed = await opened.client.list(EVENTS, { namespace: namespace.name });
      return listed.ok ? listed.value.items.map((event) => event.regarding?.name) : [];
    };
    proxy.refuse(true);
    for (let index = 0; index < 1_000; index += 1) say(index);
    await vi.waitFor(() => expect(proxy.accepted()).toBeGreaterThan(0), within);
    proxy.refuse(false);
    await vi.waitFor(async () => expect(await names()).toContain("m-999"), within);
    expect((await names()).length).toBeLessThanOrEqual(257);
    ending.abort();
    say(5_000);
    expect(await names()).not.toContain("m-5000");
    await rm(dir, { recursive: true });
  });
});
