import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines } from "../fixtures/agent.ts";
import type { MemoryReading } from "../host/host-reader.ts";
import type { MemoryJudgement } from "../pressure/pressure-watch.ts";
import { createHostObserver } from "./observe-host.ts";

test("metrics show the pressure that status tells: the governor's where it sees trouble", async () => {
  let judgement: MemoryJudgement | undefined;
  const memory: MemoryReading = { totalBytes: 8, availableBytes: 1, pressure: "Normal" };
  const disk = { totalBytes: 100, freeBytes: 50, storeBytes: 20 };
  const observer = createHostObserver({
    reader: {
      info: async () => ({}),
      memory: async () => memory,
      wiredBytes: async () => 2,
      gpuBudgetBytes: async () => 6,
      footprintBytes: async () => undefined,
    },
    store: { list: async () => [], disk: async () => disk },
    drivers: [],
    clock: createSteppedClock(),
    log: keepLines([]),
    agentVersion: "1",
    budgetBytes: undefined,
    diskReserveBytes: 5,
    address: () => ({ at: "up", address: "192.0.2.1" }),
    claimedBytes: () => 0,
    isWorking: () => true,
    judgement: () => judgement,
  });
  expect(observer.latest()).toBeUndefined();
  await observer.observe();
  expect(observer.latest()).toMatchObject({
    memory: { pressure: "Normal", availableBytes: 1 },
    gpuBudgetBytes: 6,
    disk,
  });
  judgement = { level: "Critical", because: "swap grows" };
  await observer.observe();
  expect(observer.latest()?.memory.pressure).toBe("Critical");
});
