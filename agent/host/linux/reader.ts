/** Reads a Linux machine from /proc and /sys, without children but nvidia-smi, once. */
import { readFile } from "node:fs/promises";
import { arch, cpus, totalmem } from "node:os";
import type { HostReader, MemoryReading } from "../../../src/macos/host-reader.ts";
import type { RunCommand } from "../../../src/util/command.ts";
import { createGroupMemoryReader, type GroupMemoryReader, readKernelFile } from "./cgroup.ts";
import { findLinuxGpus, groupGpus } from "./gpus.ts";
import {
  parseFootprint,
  parseMeminfo,
  parseOsRelease,
  pressureFromPsi,
  pressureFromShare,
  withinGroup,
  worsePressure,
} from "./parse.ts";
import { rootsUnder } from "./roots.ts";
import { readVendorGpus } from "./vendor.ts";

/** `run` finds nvidia-smi, for what no file says of NVIDIA's GPUs. */
export function createLinuxReader(run: RunCommand): HostReader {
  const group = createGroupMemoryReader("self");
  return {
    info: () => readInfo(run),
    memory: async () => readMemory(group),
    wiredBytes: async () => undefined,
    gpuBudgetBytes: async () => undefined,
    // The kernel keeps these sums; smaps would walk every page of the weights.
    footprintBytes: async (pid) => parseFootprint(await readText(`/proc/${pid}/status`)),
  };
}

async function readInfo(run: RunCommand): ReturnType<HostReader["info"]> {
  const [machineId, release, product, stat] = await Promise.all(
    ["/etc/machine-id", "/etc/os-release", "/sys/class/dmi/id/product_name", "/proc/stat"].map(readText),
  );
  const limited = createGroupMemoryReader("self").read(totalmem());
  const chip = cpus()[0]?.model.trim();
  const gpus = groupGpus(await readVendorGpus(findLinuxGpus(rootsUnder("/"), chip).gpus, run));
  const osVersion = parseOsRelease(release);
  const bootSeconds = /^btime (\d+)$/m.exec(stat ?? "")?.[1];
  return {
    machineId: machineId?.trim() ? machineId.trim() : undefined,
    os: "linux",
    arch: arch(),
    osVersion,
    chip: chip === undefined || chip === "" ? undefined : chip,
    hardwareModel: product === undefined ? undefined : product.trim(),
    performanceCores: cpus().length,
    gpus: gpus.length === 0 ? undefined : gpus,
    memoryBytes: limited?.limitBytes ?? totalmem(),
    bootTime: bootSeconds === undefined ? undefined : new Date(Number(bootSeconds) * 1000).toISOString(),
  };
}

/** Kernel files return at once: handing the read to another thread costs more than reading. */
function readMemory(group: GroupMemoryReader): MemoryReading {
  const values = parseMeminfo(readKernelFile("/proc/meminfo") ?? "");
  const machine = { totalBytes: values.get("MemTotal"), availableBytes: values.get("MemAvailable") };
  const limited = machine.totalBytes === undefined ? undefined : group.read(machine.totalBytes);
  const { totalBytes, availableBytes } = withinGroup(machine, limited);
  const [swapTotal, swapFree] = [values.get("SwapTotal"), values.get("SwapFree")];
  const stalls = pressureFromPsi(readKernelFile("/proc/pressure/memory"));
  return {
    totalBytes,
    availableBytes,
    swapUsedBytes: swapTotal === undefined || swapFree === undefined ? undefined : swapTotal - swapFree,
    pressure: worsePressure(stalls, pressureFromShare(availableBytes, totalBytes)),
  };
}

async function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
