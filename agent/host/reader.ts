/** The reader of this machine's platform; that of Linux reads /proc and /sys, and the only process that it starts is nvidia-smi, once. */
import { readFile } from "node:fs/promises";
import { arch, cpus, totalmem } from "node:os";
import type { HostReader, MemoryReading } from "../../src/macos/host-reader.ts";
import { parseSysctl } from "../../src/macos/parse.ts";
import { createDarwinReader } from "../../src/macos/reader.ts";
import type { RunCommand } from "../../src/util/command.ts";
import { createGroupMemoryReader, type ReadGroupMemory, readKernelFile } from "./linux/cgroup.ts";
import { findLinuxGpus, groupGpus } from "./linux/gpus.ts";
import { avx512In } from "./linux/hardware.ts";
import {
  parseFootprint,
  parseMeminfo,
  parseOsRelease,
  pressureFromPsi,
  pressureFromShare,
  withinGroup,
  worsePressure,
} from "./linux/parse.ts";
import { rootsUnder } from "./linux/roots.ts";
import { readVendorGpus } from "./linux/vendor.ts";

/** `runOften`: a cheaper way to run the tools that are needed every few seconds. */
export function createHostReader(
  platform: "darwin" | "linux",
  run: RunCommand,
  runOften: RunCommand = run,
): HostReader {
  return platform === "darwin" ? createDarwinReader(run, runOften) : createLinuxReader(run);
}

/** Identifies this boot of the machine independently of its clock; undefined if the system has no such id. */
export async function readBootId(platform: "darwin" | "linux", run: RunCommand): Promise<string | undefined> {
  if (platform === "darwin")
    return parseSysctl((await run("sysctl", ["kern.bootsessionuuid"])) ?? "").get("kern.bootsessionuuid");
  const text = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => undefined);
  return text?.trim();
}

/** `run` finds nvidia-smi, which knows facts about NVIDIA's GPUs that no file has. */
function createLinuxReader(run: RunCommand): HostReader {
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
