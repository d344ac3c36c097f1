/** The speed of a real engine, from its requests to the Host's status and to placement. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { HOSTS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type FetchedFleet, startFetchedFleet } from "./fetched-fleet.ts";

const MINUTE = 60_000;

describeUnless(whyNoNodeNetwork(), "measured speed", () => {
  let on: FetchedFleet;

  beforeAll(async () => {
    on = await startFetchedFleet();
    const spec = { contextSize: 1024 };
    await on.apply(model("chat", on.source), service("chat", on.farm.hostName, spec));
    await on.services.untilReady("chat");
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  const models = async (): Promise<{ source: string; sha256: string; tokensPerSecond?: number }[]> => {
    const host = await on.farm.objects.read(HOSTS, on.farm.hostName);
    return host.status?.models ?? [];
  };

  it(
    "is what requests really got, and stays when engine, agent and service have gone",
    async () => {
      const timings: { predicted_n: number; predicted_ms: number }[] = [];
      const generated = () => timings.reduce((sum, one) => sum + one.predicted_n, 0);
      const spentMs = () => timings.reduce((sum, one) => sum + one.predicted_ms, 0);
      while (generated() < 400 || spentMs() < 2_000)
        timings.push((await on.services.chat("chat", { max_tokens: 200 })).timings);
      const observed = await until(async () => {
        const [one] = await models();
        expect(one?.tokensPerSecond).toBeGreaterThan(0);
        return one?.tokensPerSecond ?? 0;
      });
      const speeds = timings.map((one) => (one.predicted_n / one.predicted_ms) * 1_000);
      const expectAmong = (found = 0) => {
        expect(found).toBeGreaterThan(Math.min(...speeds) * 0.85);
        expect(found).toBeLessThan(Math.max(...speeds) * 1.15);
      };
      expectAmong(observed);
      expect(observed).toBe(Number(observed.toPrecision(2)));

      await on.farm.kubectl(["delete", "isvc/chat", "-n", NAMESPACE, "--timeout=60s"]);
      // The last requests may have been measured after the first look.
      expectAmong((await models())[0]?.tokensPerSecond);
      await on.farm.agent().kill("SIGTERM");
      on.farm.restartAgent();
      await on.apply(service("chat", on.farm.hostName, { contextSize: 512 }));
      await on.services.untilReady("chat");
      // What had not been published yet is by now.
      const [kept, ...others] = await models();
      expect(others).toEqual([]);
      expect(kept?.source).toBe(on.source);
      expectAmong(kept?.tokensPerSecond);
      // Placement used the measurement: its reason for a host without one does not mention speed.
      const { chosen } = (await on.services.serviceStatus("chat")).placement;
      expect(chosen[0].reason).toMatch(/tokens\/s \(live\)/);
    },
    4 * MINUTE,
  );
});
