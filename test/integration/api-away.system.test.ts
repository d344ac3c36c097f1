/** A network that swallows everything for 25 s between an agent and its API server. The Lease of its host lasts 40 s. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { silentLog } from "../../local/terminal-log.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { whyNoNetwork } from "../bed/network.ts";
import { until } from "../bed/until.ts";
import { type AwayFleet, startAwayFleet } from "./away-fleet.ts";

const MINUTE = 60_000;

describeUnless(whyNoNetwork(), "an agent without its API server", () => {
  let on: AwayFleet;

  beforeAll(async () => {
    on = await startAwayFleet();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  it(
    "stays reachable through 25 s of a network that swallows everything, and follows at once afterwards",
    async () => {
      const [{ status }] = await on.cluster.objects.list(INFERENCE_REPLICAS);
      using renewals = await watchRenewals(on.cluster.kubeconfig, on.farm.hostName);
      await until(() => expect(renewals.moments.length).toBeGreaterThan(1));
      // Shortly before the next renewal: the worst moment.
      await pause(7_000 - (performance.now() - (renewals.moments.at(-1) ?? 0)));
      const before = renewals.moments.length;
      on.proxy.stall(true);
      await pause(25_000);
      expect(on.onlyEngine()).toBe(status.pid);
      on.proxy.stall(false); // what was open stays dead
      await until(() => expect(renewals.moments.length).toBeGreaterThan(before));
      const gaps = renewals.moments.slice(1).map((at, index) => at - (renewals.moments[index] ?? 0));
      process.stdout.write(`longest gap between renewals: ${Math.round(Math.max(...gaps))} ms\n`);
      expect(Math.max(...gaps)).toBeLessThan(39_000);
      const host = await on.cluster.objects.read(HOSTS, on.farm.hostName);
      const reachable = host.status.conditions.find(({ type }: { type: string }) => type === "Reachable");
      expect(reachable).toMatchObject({ status: "True" });
      await on.cluster.objects.scale("default", "isvc/chat", 0);
      await until(() => expect(livingEngines(on.farm.stateDir).size).toBe(0));
    },
    5 * MINUTE,
  );
});

/** The moments at which a host's Lease changed. */
async function watchRenewals(kubeconfigPath: string, host: string) {
  const connection = await connect({ kubeconfigPath });
  const ending = new AbortController();
  const moments: number[] = [];
  startReflector({
    connection,
    clock: systemClock,
    log: silentLog,
    signal: ending.signal,
    kind: LEASES,
    namespace: "metalbridge-hosts",
    fieldSelector: `metadata.name=${host}`,
    onChange: () => moments.push(performance.now()),
  });
  const stop = () => {
    ending.abort();
    connection.close();
  };
  return { moments, [Symbol.dispose]: stop };
}
