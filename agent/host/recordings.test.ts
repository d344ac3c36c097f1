/** Every recorded Mac through the real reader, and every way in which its tools can fail. */
import { describe, expect, onTestFinished, test } from "vitest";
import { createShell } from "../../src/macos/shell.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { type Fault, M4_MAX, recordedMachines, startReplay } from "../../test/bed/replay.ts";
import { createHostReader } from "./reader.ts";

const GIB = 2 ** 30;

/** Installed GiB as the folder's name says. */
function gibOf(machine: string): number {
  return Number(/-(\d+)gb-/.exec(machine)?.[1]);
}

describe.each(recordedMachines())("%s", (machine) => {
  test("reports its model and its memory", async () => {
    await using mac = await startReplay(machine);
    const reader = createHostReader("darwin", createRunCommand(mac.path));
    const total = gibOf(machine) * GIB;
    const info = await reader.info();
    expect(info.memoryBytes).toBe(total);
    expect(info.chip).toMatch(/^Apple M\d/);
    expect(machine).toContain(`macos-${info.osVersion?.split(".").slice(0, 2).join(".")}`);
    expect(info.performanceCores).toBeGreaterThanOrEqual(4);
    const memory = await reader.memory();
    expect(memory.totalBytes).toBe(total);
    expect(memory.availableBytes).toBeGreaterThan(total * 0.02);
    expect(memory.availableBytes).toBeLessThan(total);
    expect(memory.swapUsedBytes).toBeGreaterThanOrEqual(0);
    expect(memory.pressure).not.toBe("Unknown");
    const wired = await reader.wiredBytes();
    expect(wired).toBeGreaterThan(total * 0.05);
    const budget = await reader.gpuBudgetBytes();
    expect(budget).toBeGreaterThan(total * 0.6);
    expect(budget).toBeLessThan(total);
  });

  test("counts the same memory as available by sysctl and by vm_stat", async () => {
    await using mac = await startReplay(machine);
    const reader = createHostReader("darwin", createRunCommand(mac.path));
    const { availableBytes } = await reader.memory();
    await mac.setKey("vm.page_free_count", "not a number");
    expect((await reader.memory()).availableBytes).toBe(availableBytes);
  });
});

test("warning and critical are read where they were recorded", async () => {
  const pressures = await Promise.all(
    ["macmini9-1-m1-8gb-macos-13.6", "mac16-11-m4-pro-64gb-macos-15.5", M4_MAX].map(async (machine) => {
      await using mac = await startReplay(machine);
      return (await createHostReader("darwin", createRunCommand(mac.path)).memory()).pressure;
    }),
  );
  expect(pressures).toEqual(["Warning", "Critical", "Normal"]);
});

test("an operator's wired limit is the GPU budget of a Mac that has one", async () => {
  await using mac = await startReplay("mac15-14-m3-ultra-512gb-macos-26.1");
  const reader = createHostReader("darwin", createRunCommand(mac.path));
  expect(await reader.gpuBudgetBytes()).toBe(475_136 * 2 ** 20);
});

/** Only a slow tool is given up after its time, which the healthy ones beside it must keep; the agent's own is five seconds. */
const timeoutOf = (fault: Fault): number => (fault === "slow" ? 2_000 : 10_000);

describe.each(["silent", "denied", "slow", "garbage", "missing"] as const)("a %s tool", (fault: Fault) => {
  test("is unknown: never zero, never critical, never normal", async () => {
    await using mac = await startReplay(M4_MAX);
    const end = new AbortController();
    onTestFinished(() => end.abort());
    const timeoutMs = timeoutOf(fault);
    const often = createShell(mac.path, end.signal, timeoutMs);
    const reader = createHostReader("darwin", createRunCommand(mac.path, timeoutMs), often);
    const { availableBytes } = await reader.memory();
    await mac.breakTool("vm_stat", fault);
    // sysctl alone is enough; what only vm_stat reports is absent.
    expect(await reader.memory()).toMatchObject({ availableBytes, pressure: "Normal" });
    expect(await reader.wiredBytes()).toBeUndefined();
    await mac.breakTool("sysctl", fault);
    expect(await reader.memory()).toEqual({ pressure: "Unknown" });
    expect(await reader.gpuBudgetBytes()).toBeUndefined();
    await mac.breakTool("footprint", fault);
    expect(await reader.footprintBytes(process.pid)).toBeUndefined();
    await mac.breakTool("sysctl", "garbage");
    expect(await reader.memory()).toEqual({ pressure: "Unknown" });
  });
});
