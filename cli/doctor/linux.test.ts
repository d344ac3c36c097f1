/** Linux hosts, from folders laid out as the kernel does, and systemctl as systemd prints. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import type { RunTool } from "../../src/util/command.ts";
import {
  type LinuxRoots,
  readHostFirewall,
  readLinuxEphemeralPorts,
  readLinuxGpuVendors,
  readLinuxLinks,
  readLinuxListeners,
  readLinuxPowerSource,
  readLinuxPrograms,
  readLinuxSupervised,
  readOomKills,
  readPsi,
  readUnit,
} from "./linux.ts";

async function layOut(
  files: Readonly<Record<string, string | undefined>>,
): Promise<LinuxRoots & AsyncDisposable> {
  const root = await mkdtemp(path.join(tmpdir(), "mb-linux-"));
  for (const [name, text] of Object.entries(files)) {
    if (text === undefined) continue;
    await mkdir(path.join(root, path.dirname(name)), { recursive: true });
    await writeFile(path.join(root, name), text);
  }
  const [proc = "", sys = "", dev = ""] = ["proc", "sys", "dev"].map((name) => path.join(root, name));
  return { proc, sys, dev, [Symbol.asyncDispose]: () => rm(root, { recursive: true }) };
}

const says =
  (stdout: string, code = 0, stderr = ""): RunTool =>
  async () => ({ code, stdout, stderr });

test("programs and what started them, however odd their names", async () => {
  await using host = await layOut({
    "proc/7/cmdline": "/usr/bin/llama-server\0-m\0x\0",
    "proc/7/stat": "7 (a) S (b) S 3 7 7 0",
    "proc/8/cmdline": "",
    "proc/8/stat": "8 (kthreadd) S 0 0 0 0",
  });
  expect(await readLinuxPrograms(host)).toEqual({
    value: [{ pid: 7, parent: 3, command: "/usr/bin/llama-server -m x" }],
  });
  expect(await readLinuxPrograms({ ...host, proc: "/none" })).toEqual({ unknown: expect.any(String) });
});

test("ports that are listened on, in both families", async () => {
  const head = "  sl  local_address rem_address   st\n";
  await using host = await layOut({
    "proc/net/tcp": `${head}   0: 0100007F:5208 00000000:0000 0A 00000000\n   1: 0100007F:1F90 0100007F:C001 01 0\n`,
    "proc/net/tcp6": `${head}   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A\n`,
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
  });
  expect(await readLinuxListeners(host)).toEqual({ value: [{ port: 21_000 }, { port: 22 }] });
  expect(await readLinuxEphemeralPorts(host)).toEqual([32_768, 60_999]);
  expect(await readLinuxListeners({ ...host, proc: "/none" })).toEqual({ unknown: expect.any(String) });
});

test("a battery that discharges, and a mouse that does", async () => {
  const battery = (status: string, scope = "") => ({
    "sys/class/power_supply/BAT0/type": "Battery\n",
    "sys/class/power_supply/BAT0/status": `${status}\n`,
    "sys/class/power_supply/BAT0/scope": scope,
  });
  await using laptop = await layOut(battery("Discharging"));
  await using plugged = await layOut(battery("Charging"));
  await using mouse = await layOut(battery("Discharging", "Device\n"));
  expect(await readLinuxPowerSource(laptop)).toEqual({ value: { source: "battery", hasBattery: true } });
  expect(await readLinuxPowerSource(plugged)).toEqual({ value: { source: "mains", hasBattery: true } });
  expect(await readLinuxPowerSource(mouse)).toEqual({ value: { source: "mains", hasBattery: false } });
});

test("OOM kills and PSI", async () => {
  await using host = await layOut({
    "proc/vmstat": "nr_free 1\noom_kill 3\n",
    "proc/pressure/memory": "some avg10=0\n",
  });
  expect(await readOomKills(host)).toEqual({ value: 3 });
  expect(await readPsi(host)).toEqual({ value: true });
  expect(await readOomKills({ ...host, proc: "/none" })).toEqual({ unknown: expect.any(String) });
  expect(await readPsi({ ...host, proc: "/none" })).toEqual({ value: false });
});

test("links with a device, and the one that leads to the cluster", async () => {
  const link = (name: string, speed: string, isDevice = true) => ({
    [`sys/class/net/${name}/operstate`]: "up\n",
    [`sys/class/net/${name}/speed`]: `${speed}\n`,
    [`sys/class/net/${name}/device/vendor`]: isDevice ? "x" : undefined,
  });
  await using host = await layOut({
    ...link("eth0", "1000"),
    ...link("eth1", "10000"),
    ...link("docker0", "10000", false),
    ...link("wlan0", "-1"),
    "sys/class/net/wlan0/wireless/x": "",
  });
  const addresses = new Map([["eth0", ["10.0.0.9"]]]);
  const reading = await readLinuxLinks(host, "10.0.0.9", addresses);
  expect("value" in reading && [...reading.value].sort((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
    { name: "eth0", kind: "ethernet", isUp: true, isRoute: true, megabits: 1_000, address: "10.0.0.9" },
    { name: "eth1", kind: "ethernet", isUp: true, isRoute: false, megabits: 10_000 },
    { name: "wlan0", kind: "wifi", isUp: true, isRoute: false },
  ]);
});

test("a GPU with and without its driver", async () => {
  const card = { "sys/bus/pci/devices/0/class": "0x030000\n", "sys/bus/pci/devices/0/vendor": "0x10de\n" };
  await using without = await layOut(card);
  await using loaded = await layOut({ ...card, "dev/nvidiactl": "" });
  await using disk = await layOut({ ...card, "sys/bus/pci/devices/0/class": "0x010802\n" });
  const name = "NVIDIA GPU";
  expect(await readLinuxGpuVendors(without)).toEqual({
    value: [{ name, isDriverLoaded: false, mayUse: false }],
  });
  expect(await readLinuxGpuVendors(loaded)).toEqual({
    value: [{ name, isDriverLoaded: true, mayUse: true }],
  });
  expect(await readLinuxGpuVendors(disk)).toEqual({ value: [] });
});

test("the unit of the agent, as systemd has it", async () => {
  const shown = (changes: Record<string, string> = {}) =>
    Object.entries({
      LoadState: "loaded",
      ActiveState: "active",
      SubState: "running",
      KillMode: "process",
      OOMPolicy: "continue",
      MainPID: "42",
      NRestarts: "1",
      ExecMainStatus: "0",
      ...changes,
    })
      .map((entry) => entry.join("="))
      .join("\n");
  const found = { name: "metalbridge-agent.service", kind: "systemd", state: "active (running)" };
  expect(await readUnit(says(shown()))).toEqual({
    value: { found: { ...found, pid: 42, runs: 1, lastExit: "0" } },
  });
  expect(await readUnit(says(shown({ KillMode: "control-group", OOMPolicy: "stop" })))).toMatchObject({
    value: { found: { endsEngines: "KillMode=control-group, OOMPolicy=stop" } },
  });
  expect(await readUnit(says("LoadState=not-found\nActiveState=inactive"))).toEqual({ value: {} });
  expect(await readUnit(says("", 1, "System has not been booted with systemd as init system"))).toEqual({
    value: {},
  });
  expect(await readUnit(says("", 1, "Access denied\nmore"))).toEqual({
    unknown: "systemctl show exited with 1: Access denied",
  });
  expect(await readUnit(says("?"))).toEqual({ unknown: expect.any(String) });
  expect(await readUnit(async () => ({ failed: "systemctl cannot be run (ENOENT)" }))).toEqual({
    unknown: "systemctl cannot be run (ENOENT)",
  });
});

test("engines of systemd, and an active firewall", async () => {
  const units = "ollama.service loaded active running Ollama Service\n";
  expect(await readLinuxSupervised(says(units))).toEqual({
    value: [{ name: "ollama.service", stop: "sudo systemctl disable --now ollama.service" }],
  });
  expect(await readHostFirewall(says("active\n"), "/none")).toEqual({ value: { active: "firewalld" } });
  expect(await readHostFirewall(says("inactive\n", 3), "/none")).toEqual({ value: {} });
  await using host = await layOut({ "proc/ufw/ufw.conf": "ENABLED=yes\n" });
  expect(await readHostFirewall(says("inactive\n", 3), host.proc)).toEqual({ value: { active: "ufw" } });
});
