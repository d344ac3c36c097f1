/** Readings of Linux hosts from /proc, /sys and systemctl: the counterparts of src/macos/doctor. */
import { constants } from "node:fs";
import { access, readdir, readFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import type { Link, Reading, Readings, ServiceReading } from "../../src/doctor/readings.ts";
import { TRACES } from "../../src/engines/traces.ts";
import type { Listener, RunningProgram } from "../../src/macos/doctor/programs.ts";
import type { RunTool } from "../../src/util/command.ts";
import { knownReading, readAll } from "./read-all.ts";
import { readFileLimit, type SystemReadings, type Tools } from "./system.ts";

const UNIT = "metalbridge-agent.service";
const ENGINE_UNITS = TRACES.flatMap(({ units }) => (units === undefined ? [] : [units]));
const LISTEN = "0A";

/** Root folders of the system, which tests replace. */
export interface LinuxRoots {
  readonly proc: string;
  readonly sys: string;
  readonly dev: string;
}

export const linuxRoots: LinuxRoots = { proc: "/proc", sys: "/sys", dev: "/dev" };

/** Takes all readings of a Linux host. */
export async function readLinux(
  { run, limitMs, routed }: Tools,
  roots = linuxRoots,
): Promise<SystemReadings> {
  return readAll(
    {
      powerSource: readLinuxPowerSource(roots),
      oomKills: readOomKills(roots),
      isPsiAvailable: readPsi(roots),
      links: routed.then((address) => readLinuxLinks(roots, address, addressesByLink())),
      service: readUnit(run),
      supervised: readLinuxSupervised(run),
      hostFirewall: readHostFirewall(run),
      gpus: readLinuxGpuVendors(roots),
      fileLimit: readFileLimit(run),
      programs: readLinuxPrograms(roots),
      listeners: readLinuxListeners(roots),
      ephemeral: knownReading(readLinuxEphemeralPorts(roots)),
    },
    limitMs,
  );
}

function addressesByLink(): ReadonlyMap<string, readonly string[]> {
  return new Map(
    Object.entries(networkInterfaces()).map(([name, found]) => [
      name,
      (found ?? []).map(({ address }) => address),
    ]),
  );
}

/** Lists the processes with a command line; kernel threads have none. */
export async function readLinuxPrograms({ proc }: LinuxRoots): Promise<Reading<readonly RunningProgram[]>> {
  const pids = (await listNames(proc)).filter((name) => /^\d+$/.test(name));
  if (pids.length === 0) return { unknown: `${proc} lists no process` };
  const found = await Promise.all(
    pids.map(async (pid): Promise<RunningProgram | undefined> => {
      const [line, stat] = await Promise.all([
        readText(join(proc, pid, "cmdline")),
        readText(join(proc, pid, "stat")),
      ]);
      // The name in parentheses may contain any character.
      const parent = /^\d+ \(.*\) \S (\d+)/s.exec(stat ?? "")?.[1];
      if (line === undefined || line === "" || parent === undefined) return undefined;
      return {
        pid: Number(pid),
        parent: Number(parent),
        command: line.replaceAll("\0", " ").trim(),
      };
    }),
  );
  return { value: found.filter((one) => one !== undefined) };
}

/** Ports without their programs, which only root can read for other users. */
export async function readLinuxListeners({ proc }: LinuxRoots): Promise<Reading<readonly Listener[]>> {
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => readText(join(proc, "net", name))));
  if (tables.every((table) => table === undefined)) return { unknown: `${proc}/net/tcp cannot be read` };
  const ports = tables.flatMap((table) =>
    [...(table ?? "").matchAll(/^\s*\d+: \S+:([0-9A-F]{4}) \S+ ([0-9A-F]{2})/gm)].flatMap(
      ([, port, state]) => (state === LISTEN ? [Number.parseInt(port ?? "", 16)] : []),
    ),
  );
  return { value: [...new Set(ports)].map((port) => ({ port })) };
}

export async function readLinuxEphemeralPorts({
  proc,
}: LinuxRoots): Promise<readonly [number, number] | undefined> {
  const [first, last] = ((await readText(join(proc, "sys/net/ipv4/ip_local_port_range"))) ?? "")
    .trim()
    .split(/\s+/)
    .map(Number);
  return first === undefined || last === undefined || Number.isNaN(first + last) ? undefined : [first, last];
}

/** A machine that lists no power supply has no battery. */
export async function readLinuxPowerSource({ sys }: LinuxRoots): Promise<Reading<Readings["powerSource"]>> {
  const folder = join(sys, "class/power_supply");
  const supplies = await Promise.all(
    (await listNames(folder)).map(async (name) => ({
      type: (await readText(join(folder, name, "type")))?.trim(),
      status: (await readText(join(folder, name, "status")))?.trim(),
      // A mouse has a battery too, with the scope Device.
      scope: (await readText(join(folder, name, "scope")))?.trim(),
    })),
  );
  const batteries = supplies.filter(({ type, scope }) => type === "Battery" && scope !== "Device");
  const isDischarging = batteries.some(({ status }) => status === "Discharging");
  return { value: { source: isDischarging ? "battery" : "mains", hasBattery: batteries.length > 0 } };
}

export async function readOomKills({ proc }: LinuxRoots): Promise<Reading<number>> {
  const count = /^oom_kill (\d+)$/m.exec((await readText(join(proc, "vmstat"))) ?? "")?.[1];
  return count === undefined ? { unknown: `${proc}/vmstat counts no OOM kills` } : { value: Number(count) };
}

export async function readPsi({ proc }: LinuxRoots): Promise<Reading<boolean>> {
  // The file exists but cannot be read if PSI is compiled in and disabled.
  return { value: (await readText(join(proc, "pressure/memory"))) !== undefined };
}

/** Skips loopback, bridges and virtual links, which have no device, unless the route uses them. */
export async function readLinuxLinks(
  { sys }: LinuxRoots,
  routed: string | undefined,
  addresses: ReadonlyMap<string, readonly string[]>,
): Promise<Reading<readonly Link[]>> {
  const folder = join(sys, "class/net");
  const links = await Promise.all(
    (await listNames(folder)).map(async (name): Promise<Link | undefined> => {
      const own = addresses.get(name) ?? [];
      const isRoute = routed !== undefined && own.includes(routed);
      if (!isRoute && !(await exists(join(folder, name, "device")))) return undefined;
      const [state, speed] = await Promise.all(
        ["operstate", "speed"].map((file) => readText(join(folder, name, file))),
      );
      const megabits = Number(speed?.trim() || Number.NaN);
      const isWifi = await exists(join(folder, name, "wireless"));
      const [address] = own;
      return {
        name,
        isRoute,
        isUp: state?.trim() === "up",
        kind: isWifi ? "wifi" : name.startsWith("thunderbolt") ? "thunderbolt" : "ethernet",
        address,
        megabits: megabits > 0 ? megabits : undefined,
      };
    }),
  );
  return { value: links.filter((link) => link !== undefined) };
}

/** Reads the settings that systemd has loaded, which may differ from the unit file. */
export async function readUnit(run: RunTool): Promise<Reading<ServiceReading>> {
  const names = [
    "LoadState",
    "ActiveState",
    "SubState",
    "KillMode",
    "OOMPolicy",
    "MainPID",
    "NRestarts",
    "ExecMainStatus",
  ];
  const text = await systemctl(run, ["show", UNIT, `--property=${names.join(",")}`]);
  if ("unknown" in text) return text;
  if (text.value === "") return { value: {} };
  const values = new Map(
    [...text.value.matchAll(/^(\w+)=(.*)$/gm)].map(([, key = "", value = ""]) => [key, value]),
  );
  if (values.get("LoadState") === undefined)
    return { unknown: "the output of systemctl show is not understood" };
  if (values.get("LoadState") !== "loaded") return { value: {} };
  const pid = Number(values.get("MainPID"));
  const wrong = [
    ...(values.get("KillMode") === "process" ? [] : [`KillMode=${values.get("KillMode")}`]),
    ...(["continue", "", undefined].includes(values.get("OOMPolicy"))
      ? []
      : [`OOMPolicy=${values.get("OOMPolicy")}`]),
  ];
  return {
    value: {
      found: {
        name: UNIT,
        kind: "systemd",
        runs: Number(values.get("NRestarts")) || 0,
        state: `${values.get("ActiveState")} (${values.get("SubState")})`,
        lastExit: values.get("ExecMainStatus") ?? "0",
        pid: pid > 0 ? pid : undefined,
        endsEngines: wrong.length === 0 ? undefined : wrong.join(", "),
      },
    },
  };
}

export async function readLinuxSupervised(run: RunTool): Promise<Reading<Readings["supervised"]>> {
  const args = ["list-units", "--type=service", "--state=active", "--plain", "--no-legend", ...ENGINE_UNITS];
  const text = await systemctl(run, args);
  if ("unknown" in text) return text;
  const names = text.value.split("\n").flatMap((line) => /^(\S+\.service)\s/.exec(line)?.[1] ?? []);
  return { value: names.map((name) => ({ name, stop: `sudo systemctl disable --now ${name}` })) };
}

/** Empty on a machine without systemd, which has no units. */
async function systemctl(run: RunTool, args: readonly string[]): Promise<Reading<string>> {
  const answer = await run("systemctl", args);
  if ("failed" in answer) return { unknown: answer.failed };
  if (answer.code === 0) return { value: answer.stdout };
  if (/not been booted with systemd/.test(answer.stderr)) return { value: "" };
  const firstLine = answer.stderr.trim().split("\n")[0];
  return { unknown: `systemctl ${args[0]} exited with ${answer.code}: ${firstLine}` };
}

/** The state of ufw is in a file that every user may read. */
export async function readHostFirewall(
  run: RunTool,
  etc = "/etc",
): Promise<Reading<Readings["hostFirewall"]>> {
  if (/^ENABLED=yes/m.test((await readText(join(etc, "ufw/ufw.conf"))) ?? ""))
    return { value: { active: "ufw" } };
  const answer = await run("systemctl", ["is-active", "firewalld"]);
  if ("failed" in answer) return { value: {} };
  return { value: answer.stdout.trim() === "active" ? { active: "firewalld" } : {} };
}

interface GpuVendor {
  readonly id: string;
  readonly name: string;
  /** Exists once the driver is loaded. */
  readonly device: string;
}

const VENDORS: readonly GpuVendor[] = [
  { id: "0x10de", name: "NVIDIA GPU", device: "nvidiactl" },
  { id: "0x1002", name: "AMD GPU", device: "kfd" },
];

/** Display controllers on the PCI bus, one entry per vendor. */
export async function readLinuxGpuVendors({ sys, dev }: LinuxRoots): Promise<Reading<Readings["gpus"]>> {
  const folder = join(sys, "bus/pci/devices");
  const seen = new Set<string>();
  for (const name of await listNames(folder)) {
    const [kind, vendor] = await Promise.all(
      ["class", "vendor"].map((file) => readText(join(folder, name, file))),
    );
    if (kind?.startsWith("0x03") === true) seen.add(vendor?.trim() ?? "");
  }
  const found = VENDORS.filter(({ id }) => seen.has(id)).map(async ({ name, device }) => {
    const path = join(dev, device);
    return { name, isDriverLoaded: await exists(path), mayUse: await mayOpen(path) };
  });
  return { value: await Promise.all(found) };
}

function mayOpen(path: string): Promise<boolean> {
  return access(path, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

function listNames(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => []);
}

function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
