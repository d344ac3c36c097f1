/** Each reader over recorded tools, and over every way in which its tools can fail. */
import { mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, test } from "vitest";
import { startDoctorReplay } from "../../../test/bed/doctor-replay.ts";
import { type Fault, M4_MAX } from "../../../test/bed/replay.ts";
import type { Reachability } from "../../doctor/readings.ts";
import { createRunTool, type RunTool } from "../../util/command.ts";
import { readCrashes } from "./crashes.ts";
import { readFirewall } from "./firewall.ts";
import { readService, readSupervised } from "./launchd.ts";
import { readLinks, readNeighbors } from "./network.ts";
import { readFileVault, readPower, readPowerSource, readThermal, readUpdates } from "./power.ts";
import { readEphemeralPorts, readIsTranslated, readListeners, readPrograms } from "./programs.ts";

const BAD_M5 = "mac17-2-m5-32gb-macos-26.1";
const PROGRAMS = [{ engine: "llamacpp", path: "/opt/homebrew/Cellar/llama.cpp/1/bin/llama-server" }];
const responses = async (): Promise<Reachability> => "answers";

const readers: Readonly<Record<string, readonly [tool: string, read: (run: RunTool) => Promise<object>]>> = {
  power: ["pmset", readPower],
  powerSource: ["pmset", readPowerSource],
  thermal: ["pmset", readThermal],
  fileVault: ["fdesetup", readFileVault],
  updates: ["defaults", readUpdates],
  firewall: ["socketfilterfw", (run) => readFirewall(run, PROGRAMS)],
  links: ["networksetup", (run) => readLinks(run, "192.168.1.5")],
  neighbors: ["arp", (run) => readNeighbors(run, responses)],
  service: ["launchctl", (run) => readService(run, 501)],
  supervised: ["launchctl", readSupervised],
  programs: ["ps", readPrograms],
  listeners: ["lsof", readListeners],
};

async function readAll(machine: string, changes = {}): Promise<Readonly<Record<string, unknown>>> {
  await using mac = await startDoctorReplay(machine, changes);
  const run = createRunTool(mac.path);
  const entries = Object.entries(readers).map(async ([name, [, read]]) => [name, await read(run)] as const);
  return Object.fromEntries(await Promise.all(entries));
}

test("a well-kept Mac", async () => {
  expect(await readAll(M4_MAX)).toMatchObject({
    power: {
      value: { sleepMinutes: 0, isSleepDisabled: true, restartsAfterPowerLoss: true, isPowerNapOn: false },
    },
    powerSource: { value: { source: "mains", hasBattery: true } },
    thermal: { value: {} },
    fileVault: { value: { isOn: false } },
    updates: { value: { isAutomatic: false } },
    firewall: { value: { state: "on", programs: [{ verdict: "permitted" }] } },
    links: {
      value: [
        {
          name: "en0",
          kind: "ethernet",
          isUp: true,
          isRoute: true,
          megabits: 10_000,
          address: "192.168.1.20",
        },
        { name: "en1", kind: "wifi", isUp: false, isRoute: false },
        { name: "bridge0", kind: "thunderbolt", isUp: false },
      ],
    },
    // Neither broadcast nor incomplete entries are machines.
    neighbors: { value: { gateway: { address: "127.0.0.1" }, peers: [{ address: "127.0.0.2" }] } },
    service: {
      value: {
        // The state of a nested block is another one.
        found: {
          kind: "daemon",
          state: "running",
          pid: 16_090,
          runs: 2,
          lastExit: "0",
          processType: "Interactive",
        },
      },
    },
    supervised: { value: [] },
    programs: { value: expect.arrayContaining([expect.objectContaining({ pid: 16_090, parent: 1 })]) },
    listeners: { value: [{ port: 9_465, pid: 16_090, program: "node" }] },
  });
});

test("a badly kept Mac", async () => {
  const read = await readAll(BAD_M5);
  expect(read).toMatchObject({
    power: { value: { sleepMinutes: 1, isSleepDisabled: false, restartsAfterPowerLoss: false } },
    powerSource: { value: { source: "battery" } },
    thermal: { value: { speedLimitPercent: 80 } },
    firewall: { value: { programs: [{ verdict: "unlisted" }] } },
    links: {
      value: [
        { kind: "wifi", isRoute: true },
        { kind: "thunderbolt", isUp: true },
      ],
    },
    neighbors: { unknown: expect.stringContaining("no other machine") },
    service: { value: { found: { kind: "loginAgent", state: "spawn scheduled", processType: "Standard" } } },
    supervised: { value: [{ name: "homebrew.mxcl.ollama", stop: "brew services stop ollama" }] },
  });
  expect(read.service).toHaveProperty("value.found.pid", undefined);
});

describe.each(["silent", "denied", "garbage", "missing", "slow"] satisfies Fault[])(
  "tools that are %s",
  (fault) => {
    it.each(Object.entries(readers))("leave %s unknown", async (_, [tool, read]) => {
      await using mac = await startDoctorReplay(M4_MAX);
      await mac.breakTool(tool, fault);
      const run = createRunTool(
        mac.path.split(":")[0] + (fault === "missing" ? "" : ":/usr/bin:/bin"),
        1_000,
      );
      const reading = await read(run);
      // lsof ends with 1, silently, where nothing listens.
      if (fault === "silent" && tool === "lsof") expect(reading).toEqual({ value: [] });
      else expect(reading).toEqual({ unknown: expect.stringMatching(/\S/) });
    });
  },
);

describe("the firewall", () => {
  const stateOf = async (changes: object) => (await readAll(M4_MAX, changes)).firewall;

  it.each([
    ["Firewall is disabled. (State = 0)", { value: { state: "off", programs: [] } }],
    ["Firewall is blocking all non-essential connections. (State = 2)", { value: { state: "blockAll" } }],
  ])("that says %j", async (said, state) => {
    expect(await stateOf({ "socketfilterfw --getglobalstate": said })).toMatchObject(state);
  });

  it.each([
    ["The application /x is blocked", "blocked"],
    ["Incoming connection to the application is permitted", "permitted"],
    ["The application /x is not part of the firewall", "unlisted"],
    ["?", "unknown"],
  ])("that says %j of a program", async (said, verdict) => {
    const state = await stateOf({ "socketfilterfw --getappblocked *": said });
    expect(state).toMatchObject({ value: { programs: [{ verdict }] } });
  });
});

test("a gateway that does not answer proves nothing about its network", async () => {
  await using mac = await startDoctorReplay(M4_MAX);
  const run = createRunTool(mac.path);
  expect(await readNeighbors(run, async () => "silent")).toEqual({
    unknown: expect.stringContaining("127.0.0.1"),
  });
  const blocked = async (address: string): Promise<Reachability> =>
    address === "127.0.0.1" ? "answers" : "noRoute";
  expect(await readNeighbors(run, blocked)).toMatchObject({ value: { peers: [{ reach: "noRoute" }] } });
});

test("a setting that was never made is not automatic, and no service is an answer", async () => {
  const never = {
    code: 1,
    stderr: "The domain/default pair of (x, AutomaticallyInstallMacOSUpdates) does not exist",
  };
  const none = { code: 113, stderr: 'Could not find service "dev.metalbridge.agent" in domain for system' };
  const key = "defaults read /Library/Preferences/com.apple.SoftwareUpdate AutomaticallyInstallMacOSUpdates";
  const read = await readAll(M4_MAX, {
    [key]: never,
    "launchctl print system/dev.metalbridge.agent": none,
    "launchctl print *": none,
  });
  expect(read).toMatchObject({ updates: { value: { isAutomatic: false } }, service: { value: {} } });
});

test("ports of outgoing connections and Rosetta are read from sysctl", async () => {
  await using mac = await startDoctorReplay(M4_MAX);
  const run = createRunTool(mac.path);
  expect(await readEphemeralPorts(run)).toBeUndefined();
  expect(await readIsTranslated(run)).toEqual({ value: false });
  await mac.setKey("net.inet.ip.portrange.first", "49152");
  await mac.setKey("net.inet.ip.portrange.last", "65535");
  await mac.setKey("sysctl.proc_translated", "1");
  expect(await readEphemeralPorts(run)).toEqual([49_152, 65_535]);
  expect(await readIsTranslated(run)).toEqual({ value: true });
});

test("reports of panics and jetsam are recognized by name, and GPU panics by their text", async () => {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-reports-"));
  await mkdir(path.join(folder, "Retired"));
  const panic = 'panic(cpu 3): "completeMemory() prepare count underflow" @IOGPUMemory.cpp:550';
  await writeFile(path.join(folder, "panic-full-2026-05-01-101010.0002.ips"), panic);
  await writeFile(path.join(folder, "Kernel_2026-05-02-101010_mini.panic"), "panic(cpu 0): watchdog timeout");
  await writeFile(path.join(folder, "JetsamEvent-2026-05-03-101010.ips"), "{}");
  await writeFile(path.join(folder, "node-2026-05-03-101010.ips"), "{}");
  for (const name of ["panic-full-2026-05-01-101010.0002.ips"])
    await utimes(path.join(folder, name), new Date("2026-05-01T10:10:10Z"), new Date("2026-05-01T10:10:10Z"));
  const read = await readCrashes(folder);
  expect("value" in read && read.value.map(({ kind, isGpu }) => [kind, isGpu]).sort()).toEqual([
    ["jetsam", false],
    ["panic", false],
    ["panic", true],
  ]);
  expect("value" in read && read.value.at(-1)?.atMs).toBe(Date.parse("2026-05-01T10:10:10Z"));
  await rm(folder, { recursive: true });
  expect(await readCrashes(folder)).toEqual({ unknown: `${folder} cannot be read (ENOENT)` });
});

test("over ssh to a Mac without a login, an agent that is not installed is not installed", async () => {
  const { service } = await readAll(M4_MAX, {
    "launchctl print system/dev.metalbridge.agent": { code: 113, stderr: "Could not find service" },
    "launchctl print gui/*": { code: 125, stderr: "Domain does not support specified action" },
    "launchctl print user/*": { code: 113, stderr: "Could not find service" },
  });
  expect(service).toEqual({ value: {} });
});
