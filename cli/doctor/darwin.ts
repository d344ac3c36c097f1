/** All readings of a Mac that its own tools give. */
import { join } from "node:path";
import type { Reading, Readings } from "../../src/doctor/readings.ts";
import { REPORTS_FOLDER, readCrashes } from "../../src/macos/doctor/crashes.ts";
import { readFirewall } from "../../src/macos/doctor/firewall.ts";
import { readService, readSupervised } from "../../src/macos/doctor/launchd.ts";
import { readLinks, readNeighbors } from "../../src/macos/doctor/network.ts";
import {
  readFileVault,
  readPower,
  readPowerSource,
  readThermal,
  readUpdates,
} from "../../src/macos/doctor/power.ts";
import {
  readEphemeralPorts,
  readIsTranslated,
  readListeners,
  readPrograms,
} from "../../src/macos/doctor/programs.ts";
import { readTool } from "../../src/macos/doctor/reading.ts";
import { gpuBudgetFor } from "../../src/macos/gpu-budget.ts";
import { parseCount, parseSysctl } from "../../src/macos/parse.ts";
import type { RunTool } from "../../src/util/command.ts";
import { programsOf } from "./engines.ts";
import { knownReading, mapReading, readAll } from "./read-all.ts";
import { readFileLimit, type SystemReadings, type Tools } from "./system.ts";

export async function readDarwin({
  run,
  config,
  limitMs,
  engines,
  server,
  tryReach,
}: Tools): Promise<SystemReadings> {
  return readAll(
    {
      power: readPower(run),
      powerSource: readPowerSource(run),
      thermal: readThermal(run),
      fileVault: readFileVault(run),
      updates: readUpdates(run),
      gpuMemory: readGpuMemory(run),
      backup: readBackup(run, join(config.stateDir, "models")),
      firewall: engines.then(programsOf).then((programs) => readFirewall(run, programs)),
      links: readLinks(run, server),
      neighbors: readNeighbors(run, tryReach),
      service: readService(run, process.getuid?.() ?? 0),
      supervised: readSupervised(run),
      crashes: readCrashes(REPORTS_FOLDER),
      fileLimit: readFileLimit(run),
      program: readIsTranslated(run).then((reading) =>
        mapReading(reading, (isTranslated) => ({ isTranslated, nodeArch: process.arch })),
      ),
      programs: readPrograms(run),
      listeners: readListeners(run),
      ephemeral: knownReading(readEphemeralPorts(run)),
    },
    limitMs,
  );
}

async function readGpuMemory(run: RunTool): Promise<Reading<Readings["gpuMemory"]>> {
  return readTool(run, ["sysctl", "hw.memsize", "iogpu.wired_limit_mb"], (text) => {
    const values = parseSysctl(text);
    const totalBytes = parseCount(values.get("hw.memsize"));
    const wiredLimitMb = parseCount(values.get("iogpu.wired_limit_mb"));
    const defaultBytes = gpuBudgetFor(totalBytes, undefined);
    return totalBytes === undefined || wiredLimitMb === undefined || defaultBytes === undefined
      ? undefined
      : { totalBytes, wiredLimitMb, defaultBytes };
  });
}

export function readBackup(run: RunTool, folder: string): Promise<Reading<Readings["backup"]>> {
  return readTool(run, ["tmutil", "isexcluded", folder], (text) => {
    const verdict = /^\[(Excluded|Included)\]/.exec(text)?.[1];
    return verdict === undefined ? undefined : { folder, isExcluded: verdict === "Excluded" };
  });
}
