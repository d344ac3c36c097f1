import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { keepLines, type LogLine } from "../fixtures/agent.ts";
import type { MemoryReading } from "../host/host-reader.ts";
import type { MemoryJudgement } from "../pressure/pressure-watch.ts";
import type { DiskReading } from "../store/types.ts";
import { createHostObserver, type HostObserverOptions } from "./observe-host.ts";

interface Machine {
  readonly memory: MemoryReading;
  readonly disk: DiskReading;
}

function observerOf({ memory, disk }: Machine, overrides: Partial<HostObserverOptions> = {}) {
  return createHostObserver({
    reader: {
      info: async () => ({}),
      memory: async () => memory,
      wiredBytes: async () => 2,
      gpuBudgetBytes: async () => 6,
      footprintBytes: async () => undefined,
    },
    store: { list: async () => [], disk: async () => disk, collect: async () => [] },
    drivers: [],
    clock: createSteppedClock(),
    log: keepLines([]),
    agentVersion: "1",
    budgetBytes: undefined,
    diskReserveBytes: 5,
    address: () => ({ at: "up", address: "192.0.2.1" }),
    claimedBytes: () => 0,
    isWorking: () => true,
    mayCollect: () => true,
    judgement: () => undefined,
    ...overrides,
  });
}

const roomy = { totalBytes: 100, freeBytes: 50, storeBytes: 20 };
const calm: MemoryReading = { totalBytes: 8, availableBytes: 1, pressure: "Normal" };

test("metrics show the pressure that status tells: the governor's where it sees trouble", async () => {
  let judgement: MemoryJudgement | undefined;
  const observer = observerOf({ memory: calm, disk: roomy }, { judgement: () => judgement });
  expect(observer.latest()).toBeUndefined();
  await observer.observe();
  expect(observer.latest()).toMatchObject({
    memory: { pressure: "Normal", availableBytes: 1 },
    gpuBudgetBytes: 6,
    disk: roomy,
  });
  judgement = { level: "Critical", because: "swap grows" };
  await observer.observe();
  expect(observer.latest()?.memory.pressure).toBe("Critical");
});

test("unused models make room before the disk is told, but not before it is known what is used", async () => {
  const clock = createSteppedClock();
  let isKnown = false;
  let freeBytes = 3;
  const store = {
    list: async () => [],
    disk: async () => ({ ...roomy, freeBytes }),
    collect: async () => {
      freeBytes = 6;
      return [];
    },
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { clock, store, mayCollect: () => isKnown });
  expect((await observer.observe()).disk?.freeBytes).toBe(3);
  isKnown = true;
  clock.advance(2_000);
  expect((await observer.observe()).disk?.freeBytes).toBe(6);
});

test("a disk that cannot be tidied is told all the same", async () => {
  const lines: LogLine[] = [];
  const store = {
    list: async () => [],
    disk: async () => roomy,
    collect: () => Promise.reject(new Error("EIO")),
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { store, log: keepLines(lines) });
  expect((await observer.observe()).disk).toEqual(roomy);
  expect(lines.map(({ message }) => message)).toContain("unused models could not be removed");
});
