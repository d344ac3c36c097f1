import { expect, test } from "vitest";
import { gpuBudgetFor } from "../../src/macos/gpu-budget.ts";
import { parseSwVers, parseVmStat } from "../../src/macos/parse.ts";
import { createRunCommand } from "../../src/util/command.ts";
import { M4_MAX, startReplay } from "../../test/bed/replay.ts";
import { chooseAddress } from "./addresses.ts";
import { groupFolders } from "./linux/cgroup.ts";
import { pressureFromPsi, pressureFromShare, withinGroup, worsePressure } from "./linux/parse.ts";
import { createHostReader, readBootId } from "./reader.ts";
import { routedAddress } from "./routed-address.ts";

const GIB = 2 ** 30;

test("a recorded Mac is read through its own tools", async () => {
  await using mac = await startReplay(M4_MAX);
  const reader = createHostReader("darwin", createRunCommand(mac.path));
  expect(await reader.info()).toEqual({
    machineId: "00000000-1111-2222-3333-444444444444",
    os: "darwin",
    osVersion: "15.6.1",
    arch: "arm64",
    chip: "Apple M4 Max",
    hardwareModel: "Mac16,5",
    performanceCores: 12,
    efficiencyCores: 4,
    gpuCores: 40,
    memoryBytes: 48 * GIB,
    bootTime: "2025-11-20T00:53:20.000Z",
  });
  expect(await reader.memory()).toEqual({
    totalBytes: 48 * GIB,
    availableBytes: (64_712 + 468_696 + 22_116) * 16_384,
    swapUsedBytes: Math.round(7843.19 * 2 ** 20),
    pressure: "Normal",
  });
  expect(await reader.wiredBytes()).toBe(353_323 * 16_384);
  expect(await reader.gpuBudgetBytes()).toBe(40_200_900_000);
});

test("a process's footprint is read from the system's own tool", async () => {
  const text = [
    "zsh [56783]: 64-bit    Footprint: 1884592 B (16384 bytes per page)",
    "Auxiliary data:",
    "    phys_footprint: 1884592 B",
    "    phys_footprint_peak: 2884592 B",
  ].join("\n");
  const asked: string[] = [];
  let running = 0;
  const mac = createHostReader("darwin", async (program, args) => {
    expect(++running).toBe(1);
    asked.push([program, ...args].join(" "));
    await Promise.resolve();
    running -= 1;
    return args.includes("418") ? undefined : text;
  });
  expect(await Promise.all([56783, 418].map(mac.footprintBytes))).toEqual([1_884_592, undefined]);
  expect(asked[0]).toBe("footprint -p 56783 -f bytes --noCategories");
});

test.skipIf(process.platform !== "linux")(
  "the footprint of a Linux process is what is resident or swapped out",
  async () => {
    const linux = createHostReader("linux", async () => undefined);
    const own = await linux.footprintBytes(process.pid);
    expect(own).toBeGreaterThan(process.memoryUsage().heapUsed);
    expect(own).toBeLessThan(64 * GIB);
    expect(await linux.footprintBytes(2 ** 30)).toBeUndefined();
  },
);

test("pressure has three levels, anything else is unknown", async () => {
  for (const [level, pressure] of [
    ["1", "Normal"],
    ["2", "Warning"],
    ["4", "Critical"],
    ["3", "Unknown"],
    ["", "Unknown"],
  ] as const) {
    await using mac = await startReplay(M4_MAX);
    await mac.setKey("kern.memorystatus_vm_pressure_level", level);
    expect((await createHostReader("darwin", createRunCommand(mac.path)).memory()).pressure).toBe(pressure);
  }
});

test("a tool that fails leaves its readings out, never at zero", async () => {
  await using mac = await startReplay(M4_MAX);
  const reader = createHostReader("darwin", createRunCommand(mac.path));
  await mac.breakTool("sysctl");
  expect(await reader.memory()).toEqual({ availableBytes: expect.any(Number), pressure: "Unknown" });
  await mac.breakTool("vm_stat");
  expect(await reader.memory()).toEqual({ pressure: "Unknown" });
  expect(await reader.gpuBudgetBytes()).toBeUndefined();
  await mac.breakTool("sw_vers");
  await mac.breakTool("ioreg");
  expect(await reader.info()).toEqual({ os: "darwin", arch: "arm64" });
});

test("an operator's wired limit replaces the table, and between recorded sizes the smaller share counts", () => {
  expect(gpuBudgetFor(48 * GIB, 45_056)).toBe(45_056 * 2 ** 20);
  expect(gpuBudgetFor(48 * GIB, 0)).toBe(40_200_900_000);
  expect(gpuBudgetFor(96 * GIB, undefined)).toBe(Math.floor((55_662_790_000 * 96) / 64));
  expect(gpuBudgetFor(4 * GIB, undefined)).toBeUndefined();
  expect(gpuBudgetFor(undefined, undefined)).toBeUndefined();
});

test("new rows, extras and garbage do not disturb the parsers", () => {
  const text =
    "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free: 5.\nPages tagged resident:   7.\nnonsense\n";
  expect(parseVmStat(text)?.pages.get("Pages free")).toBe(5);
  expect(parseVmStat("nothing")).toBeUndefined();
  expect(parseSwVers("ProductVersion:\t\t15.6.1\nProductVersionExtra:\t(a)\n")).toBe("15.6.1 (a)");
  expect(pressureFromPsi("some avg10=25.00 avg60=1\nfull avg10=1.00 avg60=0")).toBe("Warning");
  expect(pressureFromPsi("some avg10=25.00 avg60=1\nfull avg10=31.00 avg60=0")).toBe("Critical");
  expect(pressureFromPsi("some avg10=0.00 avg60=1\nfull avg10=0.00 avg60=0")).toBe("Normal");
  expect(pressureFromPsi(undefined)).toBe("Unknown");
});

test("without swap, memory that runs out is pressure before anything stalls; the worse sign counts", () => {
  expect([0.5, 0.09, 0.04].map((share) => pressureFromShare(share * 64 * GIB, 64 * GIB))).toEqual([
    "Normal",
    "Warning",
    "Critical",
  ]);
  expect(pressureFromShare(undefined, 64 * GIB)).toBe("Unknown");
  expect(worsePressure("Unknown", "Warning")).toBe("Warning");
  expect(worsePressure("Critical", "Normal")).toBe("Critical");
});

test("a machine within a limit is only as large as that, in either version of cgroups", () => {
  const machine = { totalBytes: 64 * GIB, availableBytes: 40 * GIB };
  const group = { limitBytes: 8 * GIB, usedBytes: 6 * GIB, reclaimableBytes: GIB };
  expect(withinGroup(machine, group)).toEqual({ totalBytes: 8 * GIB, availableBytes: 3 * GIB });
  expect(withinGroup({ ...machine, availableBytes: GIB }, group).availableBytes).toBe(GIB);
  expect(withinGroup(machine, undefined)).toEqual(machine);
  const folders = (text: string) => groupFolders(text).map(({ folder, files }) => `${folder} ${files.limit}`);
  expect(folders("0::/system.slice/metalbridge.service\n")).toEqual([
    "/sys/fs/cgroup/system.slice/metalbridge.service memory.max",
    "/sys/fs/cgroup/system.slice memory.max",
  ]);
  expect(folders("4:memory:/a\n3:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/\n")).toEqual([
    "/sys/fs/cgroup/memory/a memory.limit_in_bytes",
  ]);
});

test.skipIf(process.platform !== "linux")("a Linux machine is read from /proc (needs Linux)", async () => {
  const reader = createHostReader("linux", createRunCommand("/nonexistent"));
  expect(await reader.info()).toMatchObject({
    os: "linux",
    memoryBytes: expect.any(Number),
  });
  const memory = await reader.memory();
  expect(memory.availableBytes).toBeGreaterThan(0);
  expect(memory.availableBytes).toBeLessThanOrEqual(memory.totalBytes ?? 0);
});

test("the address is the first configured one that is allowed and up, else the route's, else a reason", () => {
  const up = new Set(["192.0.2.1", "198.51.100.1"]);
  const ask = (configured: string[], allowed: string[] | undefined, routed?: string) =>
    chooseAddress({ configured, allowed, routed, inUse: [] }, up);
  expect(ask(["192.0.2.9", "198.51.100.1"], undefined)).toEqual({ at: "up", address: "198.51.100.1" });
  expect(ask(["192.0.2.1", "198.51.100.1"], ["198.51.100.0/24"])).toEqual({
    at: "up",
    address: "198.51.100.1",
  });
  expect(ask([], ["192.0.2.1"], "192.0.2.1")).toEqual({ at: "up", address: "192.0.2.1" });
  expect(ask([], undefined)).toMatchObject({ at: "none", code: "AddressUnknown" });
  expect(ask(["192.0.2.9"], undefined)).toMatchObject({
    at: "none",
    code: "AddressUnknown",
    why: expect.stringMatching(/not up/),
  });
  expect(ask(["192.0.2.1"], [])).toMatchObject({ at: "none", code: "AddressNotRegistered" });
});

test("the route to a server on this machine falls back to the default route, never to loopback", async () => {
  expect(await routedAddress("https://127.0.0.1:6443")).not.toBe("127.0.0.1");
});

test("what a failing command printed counts only where that is asked for", async () => {
  const run = createRunCommand(process.env.PATH ?? "");
  const half = ["-c", "echo half; exit 1"];
  expect(await run("sh", half)).toBeUndefined();
  expect(await run("sh", half, { partial: true })).toBe("half\n");
  expect(await run("sh", ["-c", "echo whole"])).toBe("whole\n");
  expect(await run("no-such-program", [])).toBeUndefined();
});

test("a boot is named by the system, not by a clock that may be set", async () => {
  await using mac = await startReplay(M4_MAX);
  const run = createRunCommand(mac.path);
  expect(await readBootId("darwin", run)).toBeUndefined();
  await mac.setKey("kern.bootsessionuuid", "6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90");
  expect(await readBootId("darwin", run)).toBe("6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90");
});
