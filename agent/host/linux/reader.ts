/** Reads a Linux machine from /proc and /sys. The only process that it starts is nvidia-smi, once. */
import { readFile } from "node:fs/promises";
import { arch, cpus, totalmem } from "node:os";
import type { HostReader, MemoryReading } from "../../../src/macos/host-reader.ts";
import type { RunCommand } from "../../../src/util/command.ts";
import { createGroupMemoryReader, type ReadGroupMemory, readKernelFile } from "./cgroup.ts";
import { findLinuxGpus, groupGpus } from "./gpus.ts";
import { avx512In } from "./hardware.ts";
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

/** `run` finds nvidia-smi, which knows facts about NVIDIA's GPUs that no file has. */
export function createLinuxReader(run: RunCommand): HostReader {
  const readGroup = createGroupMemoryReader("self");
  return {
    info: () => readInfo(run),
    memory: async () => readMemory(readGroup),
    wiredBytes: async () => undefined,
    gpuBudgetBytes: async () => undefined,
    // The kernel maintains these sums; smaps would walk every page of the weights.
    footprintBytes: async (pid) => parseFootprint(await readText(`/proc/${pid}/status`)),
  };
}

async function readInfo(run: RunCommand): ReturnType<HostReader["info"]> {
  const [machineId, release, product, stat, cpuinfo] = await Promise.all(
    [
      ...["/etc/machine-id", "/etc/os-release", "/sys/class/dmi/id/product_name"],
      ...["/proc/stat", "/proc/cpuinfo"],
    ].map(readText),
  );
  const limited = createGroupMemoryReader("self")(totalmem());
  const chip = cpus()[0]?.model.trim();
  const gpus = groupGpus(await readVendorGpus(findLinuxGpus(rootsUnder("/"), chip).gpus, run));
  const bootSeconds = /^btime (\d+)$/m.exec(stat ?? "")?.[1];
  return {
    machineId: machineId?.trim() || undefined,
    os: "linux",
    arch: arch(),
    osVersion: parseOsRelease(release),
    chip: chip || undefined,
    hardwareModel: product?.trim(),
    performanceCores: cpus().length,
    avx512: avx512In(cpuinfo ?? ""),
    gpus: gpus.length === 0 ? undefined : gpus,
    memoryBytes: limited?.limitBytes ?? totalmem(),
    bootTime: bootSeconds === undefined ? undefined : new Date(Number(bootSeconds) * 1000).toISOString(),
  };
}

/** Reads synchronously: kernel files return at once, and a read on another thread would cost more. */
function readMemory(readGroup: ReadGroupMemory): MemoryReading {
  const values = parseMeminfo(readKernelFile("/proc/meminfo") ?? "");
  const machine = { totalBytes: values.get("MemTotal"), availableBytes: values.get("MemAvailable") };
  const limited = machine.totalBytes === undefined ? undefined : readGroup(machine.totalBytes);
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
