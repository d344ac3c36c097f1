/** One model from a server, which is measured, and which one service takes from another. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { HOSTS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { pacedTokens } from "../bed/pace.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type FetchedFleet, startFetchedFleet } from "./fetched-fleet.ts";

const MINUTE = 60_000;

describeUnless(whyNoNodeNetwork(), "a model from a server", () => {
  let on: FetchedFleet;

  beforeAll(async () => {
    on = await startFetchedFleet();
  });

  afterEach(() => on.farm.objects.remove(NAMESPACE, "isvc", "mdl"));
  afterAll(() => on?.[Symbol.asyncDispose]());

  /** The speed of a real engine, from its requests to the Host's status and to placement. First: other requests are measured too. */
  describe("measured speed", () => {
    const models = async (): Promise<{ source: string; sha256: string; tokensPerSecond?: number }[]> => {
      const host = await on.farm.objects.read(HOSTS, on.farm.hostName);
      return host.status?.models ?? [];
    };

    it(
      "is what requests really got, and stays when engine, agent and service have gone",
      async () => {
        const spec = { contextSize: 1024 };
        await on.apply(model("chat", on.source), service("chat", on.farm.hostName, spec));
        await on.services.untilReady("chat");
        // By the engine's own clock, as what the Host reports: it does not matter who gets the core.
        const timings: { predicted_n: number; predicted_ms: number }[] = [];
        const generated = () => timings.reduce((sum, one) => sum + one.predicted_n, 0);
        const spentMs = () => timings.reduce((sum, one) => sum + one.predicted_ms, 0);
        while (generated() < 400 || spentMs() < 2_000)
          timings.push((await on.services.chat("chat", { max_tokens: 200 })).timings);
        const observed: number = await on.farm.objects.until(
          "",
          `mbhost/${on.farm.hostName}`,
          ({ status }) => {
            expect(status?.models?.[0]?.tokensPerSecond).toBeGreaterThan(0);
            return status.models[0].tokensPerSecond;
          },
        );
        const speeds = timings.map((one) => (one.predicted_n / one.predicted_ms) * 1_000);
        const expectAmong = (found = 0) => {
          expect(found).toBeGreaterThan(Math.min(...speeds) * 0.85);
          expect(found).toBeLessThan(Math.max(...speeds) * 1.15);
        };
        expectAmong(observed);
        expect(observed).toBe(Number(observed.toPrecision(2)));

        await on.farm.objects.remove(NAMESPACE, "isvc/chat");
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

  /** A higher priority on a host that has room for one: who drains, who waits, who comes back. */
  describe("preemption with real engines", () => {
    const setBudget = (gpuBudget: string | null) =>
      on.farm.objects.patch("", `mbhost/${on.farm.hostName}`, { spec: { memory: { gpuBudget } } });

    beforeAll(async () => {
      // One engine of 96 MiB and its weights, not two.
      await setBudget("220Mi");
      await on.farm.objects.until("", `mbhost/${on.farm.hostName}`, ({ status: { memory } }) =>
        expect(memory.leftBytes + memory.claimedBytes).toBe(220 * 1024 ** 2),
      );
    });

    afterAll(() => setBudget(null));

    const claim = (name: string, priority: string) => [
      model(name, on.source),
      service(name, on.farm.hostName, { contextSize: 4096, priority, rollout: { drainSeconds: 240 } }),
    ];

    it(
      "lets a stream of the lower priority end, serves the higher one, and brings the lower one back",
      async () => {
        const { services, farm, network } = on;
        await on.apply(...claim("low", "low"));
        await services.untilReady("low");
        const before = await services.replicaOf("low");

        const url = `http://${await services.clusterIp("low")}:8080/v1/chat/completions`;
        let applied: Promise<void> | undefined;
        const body = question({ max_tokens: pacedTokens(3_800), stream: true });
        const stream = network
          .curlInside(["-N", "-m", "240", url, "-d", body], {
            timeoutMs: 250_000,
            onStdout: () => {
              applied ??= on.apply(...claim("urgent", "high"));
            },
          })
          .then((answer) => ({ ...answer, endedAtMs: Date.now() }));
        await until(() => expect(applied).toBeDefined(), { everyMs: 10 });
        await applied;
        const drain = await services.replicaUntil("low", (replica) => {
          expect(replica.spec.drain?.reason).toBe("Preempted");
          expect(replica.status.phase).toBe("Draining");
          return { replica, seenAtMs: Date.now() };
        });
        expect(drain.replica.metadata.uid).toBe(before.metadata.uid);
        await services.statusUntil("urgent", (status) =>
          expect(status).toMatchObject({ phase: "WaitingForCapacity" }),
        );

        const { code, stdout, endedAtMs } = await stream;
        expect(code).toBe(0);
        const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
        expect(events.at(-1)).toBe("data: [DONE]");
        expect(events.length).toBeGreaterThan(pacedTokens(1_000));
        // Otherwise the stream finished before the drain began, and the test shows nothing.
        expect(endedAtMs).toBeGreaterThan(drain.seenAtMs);

        await services.untilReady("urgent");
        const urgent = await services.replicaOf("urgent");
        // By the engine's clock, to the second: this process may learn of its end late.
        const finishedAtMs = JSON.parse((events.at(-2) ?? "").slice("data: ".length)).created * 1_000;
        expect(Date.parse(urgent.metadata.creationTimestamp)).toBeGreaterThanOrEqual(finishedAtMs);
        expect([...livingEngines(farm.stateDir)]).toEqual([[urgent.metadata.uid, urgent.status.pid]]);
        expect((await services.chat("urgent", { max_tokens: 4 })).choices).toHaveLength(1);

        const low = await services.statusUntil("low", (status) => {
          expect(status).toMatchObject({
            phase: "WaitingForCapacity",
            reason: "Preempted",
            queuePosition: 1,
          });
          return status;
        });
        expect(low.message).toContain(`by ${NAMESPACE}/urgent, which has a higher priority`);
        expect(low.placement.preempted).toMatchObject([{ slot: 0, by: `${NAMESPACE}/urgent` }]);

        await farm.objects.remove(NAMESPACE, "isvc/urgent");
        await services.untilReady("low");
        expect((await services.chat("low", { max_tokens: 4 })).choices).toHaveLength(1);
        const back = await services.serviceStatus("low");
        expect(back.placement).not.toHaveProperty("preempted");
        expect(back).not.toHaveProperty("queuePosition");
        expect((await services.replicaOf("low")).metadata.uid).not.toBe(before.metadata.uid);
      },
      8 * MINUTE,
    );
  });
});
