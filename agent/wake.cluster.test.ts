/** A whole agent whose machine sleeps, simulated by clocks that the test moves. */
import { randomBytes } from "node:crypto";
import { expect, test, vi } from "vitest";
import type { Clock } from "../src/util/ports.ts";
import { sharedCluster } from "../test/cluster/cluster.ts";
import { movableClock } from "../test/fixtures/movable-clock.ts";
import { startAgent } from "./fixtures/agent.ts";

const HOUR = 3_600_000;
const LONG_MS = 5_000;
const patiently = { timeout: 60_000, interval: 20 };

test.each([
  ["whose monotonic clock stops in sleep", 0],
  ["whose monotonic clock runs on in sleep", HOUR],
])("a machine %s renews its Lease and relists as soon as it wakes", async (_, countedMs) => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const { clock: moved, sleep } = movableClock();
  let hasSlept = false;
  // After the sleep the long waits do not end, among them the ten seconds between two renewals.
  const after: Clock["after"] = (delayMs, fire) =>
    moved.after(delayMs, () => {
      if (!hasSlept || delayMs < LONG_MS) fire();
    });
  const clock = { ...moved, after };
  await using agent = await startAgent({ kubeconfig, hostName, register: true, clock });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  const renewedAfter = (moment: number): Promise<number> =>
    objects.until("metalbridge-hosts", `leases/${hostName}`, (lease) => {
      const renewed = Date.parse(lease?.spec.renewTime);
      expect(renewed).toBeGreaterThan(moment);
      return renewed;
    });
  let before = await renewedAfter(0);
  // The quick renewals of a new holder come first; right after one that came later, the next is ten seconds away.
  for (let apartMs = 0; apartMs < LONG_MS; ) {
    const renewed = await renewedAfter(before);
    apartMs = renewed - before;
    before = renewed;
  }
  hasSlept = true;
  sleep(HOUR, countedMs);
  await renewedAfter(clock.nowMs());
  // On a busy machine a renewal that was due anyway may come before the sleep is noticed.
  const noticed = () => agent.lines.filter(({ message }) => message.includes("slept"));
  await vi.waitFor(() => expect(noticed()).toHaveLength(1), patiently);
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
});

test("a wall clock that is set back is not a sleep, and changes nothing", async () => {
  const { kubeconfig } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const { clock: moved, setWall } = movableClock();
  let reads = 0;
  const clock: Clock = {
    ...moved,
    nowMs: () => {
      reads += 1;
      return moved.nowMs();
    },
  };
  await using agent = await startAgent({ kubeconfig, hostName, register: true, clock });
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), patiently);
  setWall(-HOUR);
  const before = reads;
  // The clocks are read together every second, and by a renewal of the Lease in between.
  await vi.waitFor(() => expect(reads).toBeGreaterThan(before + 4), patiently);
  expect(agent.lines.filter(({ message }) => message.includes("slept"))).toEqual([]);
  expect(await agent.ask("/readyz")).toBe("200 ok\n");
});
