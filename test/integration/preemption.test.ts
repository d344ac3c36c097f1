/** A higher priority on a host that has room for one, with real engines: who drains, who waits, who comes back. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { HOSTS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { until } from "../bed/until.ts";
import { type FetchedFleet, startFetchedFleet } from "./fetched-fleet.ts";

const MINUTE = 60_000;
describeUnless(whyNoNodeNetwork(), "preemption with real engines", () => {
  let on: FetchedFleet;

  beforeAll(async () => {
    on = await startFetchedFleet();
    const { kubectl, hostName } = on.farm;
    await until(() => kubectl(["get", "mbhost", hostName]), { everyMs: 200 });
    // One engine of 96 MiB and its weights, not two.
    const spec = { memory: { gpuBudget: "220Mi" } };
    await kubectl(["patch", `mbhost/${hostName}`, "--type=merge", "-p", JSON.stringify({ spec })]);
    await until(async () => {
      const { memory } = (await on.farm.objects.read(HOSTS, hostName)).status;
      expect(memory.leftBytes + memory.claimedBytes).toBe(220 * 1024 ** 2);
    });
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

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
      const body = question({ max_tokens: 3_800, stream: true });
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
      const drain = await until(async () => {
        const replica = await services.replicaOf("low");
        expect(replica.spec.drain?.reason).toBe("Preempted");
        expect(replica.status.phase).toBe("Draining");
        return { replica, seenAtMs: Date.now() };
      });
      expect(drain.replica.metadata.uid).toBe(before.metadata.uid);
      await until(async () =>
        expect(await services.serviceStatus("urgent")).toMatchObject({ phase: "WaitingForCapacity" }),
      );

      const { code, stdout, endedAtMs } = await stream;
      expect(code).toBe(0);
      const events = stdout.split("\n").filter((line) => line.startsWith("data: "));
      expect(events.at(-1)).toBe("data: [DONE]");
      expect(events.length).toBeGreaterThan(1_000);
      // Otherwise the stream finished before the drain began, and the test shows nothing.
      expect(endedAtMs).toBeGreaterThan(drain.seenAtMs);

      await services.untilReady("urgent");
      const urgent = await services.replicaOf("urgent");
      // By the engine's clock, to the second: this process may learn of its end late.
      const finishedAtMs = JSON.parse((events.at(-2) ?? "").slice("data: ".length)).created * 1_000;
      expect(Date.parse(urgent.metadata.creationTimestamp)).toBeGreaterThanOrEqual(finishedAtMs);
      expect([...livingEngines(farm.stateDir)]).toEqual([[urgent.metadata.uid, urgent.status.pid]]);
      expect((await services.chat("urgent", { max_tokens: 4 })).choices).toHaveLength(1);

      const low = await until(async () => {
        const status = await services.serviceStatus("low");
        expect(status).toMatchObject({ phase: "WaitingForCapacity", reason: "Preempted", queuePosition: 1 });
        return status;
      });
      expect(low.message).toContain(`by ${NAMESPACE}/urgent, which has a higher priority`);
      expect(low.placement.preempted).toMatchObject([{ slot: 0, by: `${NAMESPACE}/urgent` }]);

      await farm.kubectl(["delete", "isvc/urgent", "-n", NAMESPACE, "--timeout=60s"]);
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
