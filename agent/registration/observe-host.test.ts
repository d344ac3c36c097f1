import { expect, test } from "vitest";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import type { EngineDriver } from "../engines/engine.ts";
import { keepLines, type LogLine } from "../fixtures/agent.ts";
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

test("metrics show the pressure that status reports: the governor's where it sees pressure", async () => {
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

test("unused models are removed before disk space is reported, but not before it is known which are in use", async () => {
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

test("disk space is reported even when removing unused models fails", async () => {
  const lines: LogLine[] = [];
  const store = {
    list: async () => [],
    disk: async () => roomy,
    collect: () => Promise.reject(new Error("EIO")),
  };
  const observer = observerOf({ memory: calm, disk: roomy }, { store, log: keepLines(lines) });
  expect((await observer.observe()).disk).toEqual(roomy);
  expect(lines.map(({ message }) => message)).toContain("cannot remove unused models");
});

test("machine info that a tool failed to give is asked for again, and what was known stays", async () => {
  const clock = createSteppedClock();
  const whole = {
    ...{ machineId: "m", osVersion: "26.1", chip: "Apple M4", hardwareModel: "Mac16,5" },
    ...{ performanceCores: 10, memoryBytes: 8, bootTime: "2026-01-01T00:00:00Z" },
  };
  const answers: object[] = [{ osVersion: "26.1", hardwareModel: "Mac16,5" }, whole];
  let asked = 0;
  const observer = observerOf(
    { memory: calm, disk: roomy },
    {
      clock,
      reader: {
        info: async () => {
          asked += 1;
          return answers.shift() ?? {};
        },
        memory: async () => calm,
        wiredBytes: async () => 2,
        gpuBudgetBytes: async () => 6,
        footprintBytes: async () => undefined,
      },
    },
  );
  expect((await observer.observe()).info.machineId).toBeUndefined();
  clock.advance(5_000);
  await observer.observe();
  expect(asked).toBe(1);
  clock.advance(600_000);
  expect((await observer.observe()).info).toMatchObject(whole);
  expect(await observer.machineId()).toBe("m");
  clock.advance(6_000_000);
  await observer.observe();
  expect(asked).toBe(2);
});

test("a host with several GPUs has the memory of all, and a GPU that two backends show counts once", async () => {
  const GIB = 2 ** 30;
  const device = (name: string, gib: number) => ({
    ...{ name, description: "a GPU", totalBytes: gib * GIB, freeBytes: gib * GIB },
  });
  const budgetOf = async (...devices: readonly ReturnType<typeof device>[]) => {
    const driver = { runtime: "llamacpp", detect: async () => undefined, devices: async () => devices };
    const drivers = [driver as unknown as EngineDriver];
    return (await observerOf({ memory: calm, disk: roomy }, { drivers }).observe()).gpuBudgetBytes;
  };
  expect(await budgetOf(device("CUDA0", 24), device("CUDA1", 24))).toBe(48 * GIB);
  expect(await budgetOf(device("CUDA0", 24), device("CUDA1", 24), device("Vulkan0", 24))).toBe(48 * GIB);
  expect(await budgetOf(device("MTL0", 48))).toBe(48 * GIB);
  expect(await budgetOf()).toBe(6);
});
