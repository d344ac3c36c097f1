/** Reads a Linux machine from /proc, without children. */
import { readFile } from "node:fs/promises";
import { arch, cpus, hostname, totalmem } from "node:os";
import type { HostReader, MemoryReading } from "../host-reader.ts";
import { readGroupMemory } from "./cgroup.ts";
import {
  parseFootprint,
  parseMeminfo,
  parseOsRelease,
  pressureFromPsi,
  pressureFromShare,
  withinGroup,
  worst,
} from "./parse.ts";

export function createLinuxReader(): HostReader {
  return {
    info: readInfo,
    memory: readMemory,
    wiredBytes: async () => undefined,
    gpuBudgetBytes: async () => undefined,
    // The kernel keeps these sums; smaps would walk every page of the weights.
    footprintBytes: async (pid) => parseFootprint(await readText(`/proc/${pid}/status`)),
  };
}

async function readInfo(): ReturnType<HostReader["info"]> {
  const [machineId, release, product, stat] = await Promise.all(
    ["/etc/machine-id", "/etc/os-release", "/sys/class/dmi/id/product_name", "/proc/stat"].map(readText),
  );
  const group = await readGroupMemory(totalmem());
  const chip = cpus()[0]?.model.trim();
  const osVersion = parseOsRelease(release);
  const bootSeconds = /^btime (\d+)$/m.exec(stat ?? "")?.[1];
  return {
    machineId: machineId?.trim() || hostname(),
    os: "linux",
    arch: arch(),
    ...(osVersion === undefined ? {} : { osVersion }),
    ...(chip === undefined || chip === "" ? {} : { chip }),
    ...(product === undefined ? {} : { hardwareModel: product.trim() }),
    performanceCores: cpus().length,
    memoryBytes: group?.limitBytes ?? totalmem(),
    ...(bootSeconds === undefined ? {} : { bootTime: new Date(Number(bootSeconds) * 1000).toISOString() }),
  };
}

async function readMemory(): Promise<MemoryReading> {
  const [meminfo, psi] = await Promise.all([readText("/proc/meminfo"), readText("/proc/pressure/memory")]);
  const values = parseMeminfo(meminfo ?? "");
  const machine = { totalBytes: values.get("MemTotal"), availableBytes: values.get("MemAvailable") };
  const group = machine.totalBytes === undefined ? undefined : await readGroupMemory(machine.totalBytes);
  const { totalBytes, availableBytes } = withinGroup(machine, group);
  const [swapTotal, swapFree] = [values.get("SwapTotal"), values.get("SwapFree")];
  return {
    ...(totalBytes === undefined ? {} : { totalBytes }),
    ...(availableBytes === undefined ? {} : { availableBytes }),
    ...(swapTotal === undefined || swapFree === undefined ? {} : { swapUsedBytes: swapTotal - swapFree }),
    pressure: worst(pressureFromPsi(psi), pressureFromShare(availableBytes, totalBytes)),
  };
}

async function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
