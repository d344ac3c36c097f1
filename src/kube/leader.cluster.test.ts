/** Leader election when the leader itself is at fault. */
import { expect, it, vi } from "vitest";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { connect } from "./client/connect.ts";
import { createClient } from "./client/create-client.ts";
import { runLeaderElection } from "./leader.ts";
import { systemClock } from "./system-clock.ts";

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
