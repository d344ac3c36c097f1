/** Leader election when the leader itself is at fault. */
import { expect, it, vi } from "vitest";
import { sharedCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { movableClock } from "../../../test/fixtures/movable-clock.ts";
import { connect } from "../client/connect.ts";
import { createClient } from "../client/create-client.ts";
import { CONFIG_MAPS, LEASES } from "../kinds.ts";
import { systemClock } from "../system-clock.ts";
import type { KubeClient } from "../types.ts";
import { runLeaderElection } from "./leader.ts";

it("a leader whose work fails makes room for another", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const stop = new AbortController();
  const led: string[] = [];
  const run = (identity: string, onLead: () => Promise<void>) =>
    runLeaderElection({
      client: createClient(connection),
      clock: systemClock,
      log: quietLog,
      signal: stop.signal,
      name: "controller",
      namespace: namespace.name,
      identity,
      // Longer than this test waits: only a released Lease lets the next candidate lead.
      durationSeconds: 120,
      retryMs: 50,
      onLead: () => {
        led.push(identity);
        return onLead();
      },
      onLost: () => led.push(`not ${identity}`),
    });
  const bad = run("bad", () => Promise.reject(new Error("no work today")));
  await vi.waitFor(() => expect(led.slice(0, 2)).toEqual(["bad", "not bad"]), { timeout: 60_000 });
  const good = run("good", () => Promise.resolve());
  await vi.waitFor(() => expect(led).toContain("good"), { timeout: 60_000 });
  stop.abort();
  await Promise.all([bad, good]);
  connection.close();
});

it("a leader that stops while it renews leaves the Lease to the next", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  const connection = await connect({ kubeconfigPath: cluster.kubeconfig });
  const client = createClient(connection);
  const stop = new AbortController();
  const election = { clock: systemClock, log: quietLog, name: "controller", namespace: namespace.name };
  let updates = 0;
  // The process is stopped while a renewal is on its way.
  const renewing: KubeClient = {
    ...client,
    update: (...args) => {
      updates += 1;
      if (updates === 1) queueMicrotask(() => stop.abort());
      return client.update(...args);
    },
  };
  await runLeaderElection({
    ...election,
    client: renewing,
    signal: stop.signal,
    identity: "first",
    durationSeconds: 120,
    retryMs: 50,
    onLead: () => {},
  });
  const lease = await client.get(LEASES, { namespace: namespace.name, name: "controller" });
  expect(lease).toMatchObject({ ok: true, value: { spec: { holderIdentity: "" } } });
  connection.close();
});

it("a leader that has slept sends none of the writes that still wait for a connection", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  const { clock, sleep } = movableClock();
  const elected = await connect({ kubeconfigPath: cluster.kubeconfig });
  const working = await connect({ kubeconfigPath: cluster.kubeconfig, maxRequests: 1 });
  const stop = new AbortController();
  const write = async (client: KubeClient, name: string) => {
    const metadata = { namespace: namespace.name, name };
    const object = { apiVersion: "v1", kind: "ConfigMap", metadata };
    const result = await client.create(CONFIG_MAPS, object);
    return result.ok ? "written" : result.error.reason;
  };
  const results = await new Promise<readonly string[]>((resolve) => {
    void runLeaderElection({
      client: createClient(elected),
      clock,
      log: quietLog,
      signal: stop.signal,
      name: "controller",
      namespace: namespace.name,
      identity: "sleeper",
      onLead: async (_, mayWrite) => {
        const client = createClient(working, { mayWrite });
        const waiting = Array.from({ length: 20 }, (_, index) => write(client, `waiting-${index}`));
        await waiting[0];
        sleep(60_000);
        resolve(await Promise.all(waiting));
      },
    });
  });
  stop.abort();
  expect(results.slice(0, 3)).toContain("written");
  // The next in line may have been sent when the first was answered.
  expect(new Set(results.slice(3))).toEqual(new Set(["NotLeading"]));
  const listed = await createClient(elected).list(CONFIG_MAPS, { namespace: namespace.name });
  const names = listed.ok ? listed.value.items.map(({ metadata }) => metadata.name) : [];
  expect(names.filter((name) => name.startsWith("waiting-")).length).toBeLessThan(4);
  elected.close();
  working.close();
});
