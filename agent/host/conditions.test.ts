/** Conditions of recorded Macs, by the checks of doctor. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDoctorReplay } from "../../test/bed/doctor-replay.ts";
import { M4_MAX } from "../../test/bed/replay.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { createHostConditions, readHostConditions, readSpeedConditions } from "./conditions.ts";

const PROGRAMS = [{ engine: "llamacpp", path: "/opt/homebrew/bin/llama-server" }];

const briefly = (conditions: Awaited<ReturnType<typeof readHostConditions>>) =>
  conditions.map(({ type, status, reason }) => `${type}=${status} ${reason}`);

test("no condition of a well-configured Mac is True", async () => {
  await using mac = await startDoctorReplay(M4_MAX);
  expect(briefly(await readHostConditions(mac.path, PROGRAMS))).toEqual([
    "InboundBlocked=False Normal",
    "PowerAtRisk=False Normal",
    "RestartAtRisk=False Normal",
    "ThermalPressure=False Normal",
  ]);
});

test("a badly configured Mac reports each problem and its remedy, with the most urgent as the reason", async () => {
  await using mac = await startDoctorReplay("mac17-2-m5-32gb-macos-26.1");
  const conditions = await readHostConditions(mac.path, PROGRAMS);
  expect(briefly(conditions)).toEqual([
    "InboundBlocked=True FirewallBlocksEngine",
    "PowerAtRisk=True OnBattery",
    "RestartAtRisk=True NoRestartAfterPowerLoss",
    "ThermalPressure=True ThermalThrottled",
  ]);
  expect(conditions[1]?.message).toContain("the machine sleeps after 1 min; turn off sleep: sudo pmset");
  expect(conditions[1]?.message).toContain("closing the lid puts this Mac to sleep");
});

test("a tool that fails leaves its condition Unknown, and one that is True stays so", async () => {
  await using mac = await startDoctorReplay("mac17-2-m5-32gb-macos-26.1");
  await mac.breakTool("socketfilterfw");
  const battery = "Now drawing from 'Battery Power'";
  await using half = await startDoctorReplay(M4_MAX, { "pmset -g": { code: 1 }, "pmset -g batt": battery });
  expect(briefly(await readHostConditions(mac.path, PROGRAMS))[0]).toBe(
    "InboundBlocked=Unknown ReadingFailed",
  );
  expect(briefly(await readHostConditions(half.path, []))[1]).toBe("PowerAtRisk=True OnBattery");
});

test.each([
  ["CPU_Scheduler_Limit \t= 100\nCPU_Available_CPUs \t= 14\nCPU_Speed_Limit \t= 80", "limited to 80%"],
  [
    "Thermal Warning Level = 5\nNote: No performance warning level has been recorded",
    "at thermal warning level 5",
  ],
  [
    "Note: No thermal warning level has been recorded\nPerformance Warning Level = 1",
    "at thermal warning level 1",
  ],
  ["Thermal Warning Level = 0\nPerformance Warning Level = 255", "nominal"],
  [undefined, "nominal"],
])("heat in the output of pmset: %j", async (therm, thermal) => {
  await using mac = await startDoctorReplay(M4_MAX, therm === undefined ? {} : { "pmset -g therm": therm });
  expect(await readSpeedConditions("darwin", mac.path)).toEqual({ thermal, isOnBattery: false });
  const heat = (await readHostConditions(mac.path, [])).find(({ type }) => type === "ThermalPressure");
  expect(heat?.status).toBe(thermal === "nominal" ? "False" : "True");
});

test("power of the battery, and other systems, in the conditions of a speed", async () => {
  const battery = "Now drawing from 'Battery Power'";
  await using mac = await startDoctorReplay(M4_MAX, { "pmset -g batt": battery });
  expect(await readSpeedConditions("darwin", mac.path)).toEqual({ thermal: "nominal", isOnBattery: true });
  await mac.breakTool("pmset");
  const unknown = { thermal: undefined, isOnBattery: false };
  expect(await readSpeedConditions("darwin", mac.path)).toEqual(unknown);
  expect(await readSpeedConditions("linux", mac.path)).toEqual(unknown);
});

test("the tools run every ten minutes, and only on a Mac", async () => {
  await using mac = await startDoctorReplay(M4_MAX);
  const clock = createSteppedClock();
  const config = { hostName: "mac-1", platform: "darwin", dryRun: false } as const;
  const read = createHostConditions(config, mac.path, clock);
  const power = async () => (await read([])).find(({ type }) => type === "PowerAtRisk")?.status;
  expect(await power()).toBe("False");
  await mac.breakTool("pmset");
  expect(await power()).toBe("False");
  clock.advance(600_000);
  expect(await power()).toBe("Unknown");
  expect(await createHostConditions({ ...config, platform: "linux" }, mac.path, clock)([])).toEqual([]);
});

test("thermal pressure is read every half minute, and at every heartbeat while it is raised", async () => {
  await using cool = await startDoctorReplay(M4_MAX);
  await using hot = await startDoctorReplay("mac17-2-m5-32gb-macos-26.1");
  const pmset = ({ path }: typeof cool) => join(path.split(":")[0] ?? "", "pmset");
  const nominal = await readFile(pmset(cool));
  const clock = createSteppedClock();
  const read = createHostConditions(
    { hostName: "mac-1", platform: "darwin", dryRun: false },
    cool.path,
    clock,
  );
  const heatIn = async (ms: number) => {
    clock.advance(ms);
    return (await read([])).find(({ type }) => type === "ThermalPressure")?.status;
  };
  expect(await heatIn(0)).toBe("False");
  await writeFile(pmset(cool), await readFile(pmset(hot)));
  expect(await heatIn(30_000)).toBe("True");
  await writeFile(pmset(cool), nominal);
  expect(await heatIn(5_000)).toBe("False");
  await cool.breakTool("pmset");
  expect(await heatIn(30_000)).toBe("Unknown");
});
