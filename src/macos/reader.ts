/** Reads a Mac with the tools of macOS: one sysctl for all keys, and vm_stat only for missing counters. */
import type { RunCommand } from "../util/command.ts";
import { defined } from "../util/defined.ts";
import { createSerializer } from "../util/serializer.ts";
import { gpuBudgetFor } from "./gpu-budget.ts";
import type { HostReader, MemoryReading, Pressure } from "./host-reader.ts";
import {
  availableByCounters,
  availableBytes,
  parseBootTime,
  parseCount,
  parseFootprint,
  parseGpuCores,
  parsePlatformUuid,
  parseSwapUsed,
  parseSwVers,
  parseSysctl,
  parseVmStat,
} from "./parse.ts";

const INFO_KEYS = [
  "machdep.cpu.brand_string",
  "hw.model",
  "hw.memsize",
  "hw.physicalcpu",
  "hw.nperflevels",
  "hw.perflevel0.physicalcpu",
  "hw.perflevel1.physicalcpu",
  "kern.boottime",
];
const COUNTERS = [
  "vm.pagesize",
  "vm.page_free_count",
  "vm.page_purgeable_count",
  "vm.page_pageable_external_count",
];
const MEMORY_KEYS = ["hw.memsize", "kern.memorystatus_vm_pressure_level", "vm.swapusage", ...COUNTERS];

/** `runOften` runs commands that are repeated every few seconds. */
export function createDarwinReader(run: RunCommand, runOften: RunCommand): HostReader {
  const inTurn = createSerializer();
  return {
    // One at a time, because after a restart the footprints of all engines are read at once.
    footprintBytes: async (pid) =>
      parseFootprint(
        await inTurn(() => run("footprint", ["-p", String(pid), "-f", "bytes", "--noCategories"])),
      ),
    info: () => readInfo(run),
    memory: () => readMemory(runOften),
    wiredBytes: async () => {
      const stat = parseVmStat((await run("vm_stat", [])) ?? "");
      const wired = stat?.pages.get("Pages wired down");
      return stat === undefined || wired === undefined ? undefined : wired * stat.pageBytes;
    },
    gpuBudgetBytes: async () => {
      const values = parseSysctl(
        (await run("sysctl", ["hw.memsize", "iogpu.wired_limit_mb"], { partial: true })) ?? "",
      );
      return gpuBudgetFor(
        parseCount(values.get("hw.memsize")),
        parseCount(values.get("iogpu.wired_limit_mb")),
      );
    },
  };
}

async function readInfo(run: RunCommand): ReturnType<HostReader["info"]> {
  const [sysctl, swVers, accelerator, platform] = await Promise.all([
    run("sysctl", INFO_KEYS, { partial: true }),
    run("sw_vers", []),
    run("ioreg", ["-r", "-d", "1", "-w", "0", "-c", "IOAccelerator"]),
    run("ioreg", ["-r", "-d", "1", "-w", "0", "-c", "IOPlatformExpertDevice"]),
  ]);
  const values = parseSysctl(sysctl ?? "");
  const performanceCores =
    parseCount(values.get("hw.perflevel0.physicalcpu")) ?? parseCount(values.get("hw.physicalcpu"));
  return defined({
    machineId: parsePlatformUuid(platform),
    os: "darwin",
    osVersion: parseSwVers(swVers),
    // Metalbridge runs on Apple silicon only.
    arch: "arm64",
    chip: values.get("machdep.cpu.brand_string"),
    hardwareModel: values.get("hw.model"),
    performanceCores,
    efficiencyCores: parseCount(values.get("hw.perflevel1.physicalcpu")),
    gpuCores: parseGpuCores(accelerator),
    memoryBytes: parseCount(values.get("hw.memsize")),
    bootTime: parseBootTime(values.get("kern.boottime")),
  });
}

async function readMemory(run: RunCommand): Promise<MemoryReading> {
  const values = parseSysctl((await run("sysctl", MEMORY_KEYS, { partial: true })) ?? "");
  return {
    ...defined({
      totalBytes: parseCount(values.get("hw.memsize")),
      availableBytes: availableByCounters(values) ?? (await availableByVmStat(run)),
      swapUsedBytes: parseSwapUsed(values.get("vm.swapusage")),
    }),
    pressure: pressureOf(values.get("kern.memorystatus_vm_pressure_level")),
  };
}

/** For versions of macOS without one of the counters. It costs a second child process. */
async function availableByVmStat(run: RunCommand): Promise<number | undefined> {
  const stat = parseVmStat((await run("vm_stat", [])) ?? "");
  return stat === undefined ? undefined : availableBytes(stat);
}

function pressureOf(level: string | undefined): Pressure {
  switch (level) {
    case "1":
      return "Normal";
    case "2":
      return "Warning";
    case "4":
      return "Critical";
    default:
      return "Unknown";
  }
}
