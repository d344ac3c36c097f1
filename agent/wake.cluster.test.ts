/** A whole agent whose machine sleeps, simulated by clocks that the test moves. */
import { randomBytes } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { Clock } from "../src/util/ports.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { movableClock } from "../test/fixtures/movable-clock.ts";
import { startAgent } from "./fixtures/agent.ts";

const HOUR = 3_600_000;
const patiently = { timeout: 60_000, interval: 20 };

test.each([
  ["whose monotonic clock stops in sleep", 0],
  ["whose monotonic clock runs on in sleep", HOUR],
])("a machine %s renews its Lease and relists as soon as it wakes", async (_, countedMs) => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const { clock, sleep } = movableClock();
  await using agent = await startAgent({ kubeconfig, hostName, register: true, clock });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  // On the agent's clock: how long kubectl takes to tell is not measured.
  const renewedAt = async (): Promise<number> => {
    const what = ["-n", "metalbridge-hosts", hostName, "-o", "jsonpath={.spec.renewTime}"];
    return Date.parse(await kubectl(["get", "lease", ...what]));
  };
  // The quick renewals of a new holder come first; right after one that came later, the next is ten seconds away.
  const renewedAfter = (moment: number): Promise<number> =>
    vi.waitFor(async () => {
      const renewed = await renewedAt();
      expect(renewed).toBeGreaterThan(moment);
      return renewed;
    }, patiently);
  let before = await renewedAt();
  for (let apartMs = 0; apartMs < 5_000; ) {
    const renewed = await renewedAfter(before);
    apartMs = renewed - before;
    before = renewed;
  }
  sleep(HOUR, countedMs);
  const wokeAt = clock.nowMs();
  expect((await renewedAfter(wokeAt)) - wokeAt).toBeLessThan(7_000);
  expect(agent.lines.filter(({ message }) => message.includes("slept"))).toHaveLength(1);
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
});

test("a wall clock that is set back is not a sleep, and changes nothing", async () => {
  const { kubeconfig } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const { clock: moved, setWall } = movableClock();
  let looks = 0;
  const clock: Clock = {
    ...moved,
    nowMs: () => {
      looks += 1;
      return moved.nowMs();
    },
  };
  await using agent = await startAgent({ kubeconfig, hostName, register: true, clock });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  setWall(-HOUR);
  const from = performance.now();
  const before = looks;
  // The clocks are read every second.
  await vi.waitFor(() => {
    expect(looks).toBeGreaterThan(before);
    expect(performance.now() - from).toBeGreaterThan(6_000);
  }, patiently);
  expect(agent.lines.filter(({ message }) => message.includes("slept"))).toEqual([]);
  expect(await agent.ask("/readyz")).toBe("200 ok\n");
});
