/** All readings from the tools of macOS. */
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

export interface DarwinTools extends Pick<Tools, "run" | "engines" | "server" | "tryReach"> {
  /** The folder to check for exclusion from backups. */
  readonly folder: string;
}

/** One reader per reading: doctor runs them concurrently, selftest one after the other. */
export const darwinReadings = {
  power: ({ run }) => readPower(run),
  powerSource: ({ run }) => readPowerSource(run),
  thermal: ({ run }) => readThermal(run),
  fileVault: ({ run }) => readFileVault(run),
  updates: ({ run }) => readUpdates(run),
  gpuMemory: ({ run }) => readGpuMemory(run),
  backup: ({ run, folder }) => readBackup(run, folder),
  firewall: ({ run, engines }) => engines.then(programsOf).then((programs) => readFirewall(run, programs)),
  links: ({ run, server }) => readLinks(run, server),
  neighbors: ({ run, tryReach }) => readNeighbors(run, tryReach),
  service: ({ run }) => readService(run, process.getuid?.() ?? 0),
  supervised: ({ run }) => readSupervised(run),
  crashes: () => readCrashes(REPORTS_FOLDER),
  fileLimit: ({ run }) => readFileLimit(run),
  program: ({ run }) =>
    readIsTranslated(run).then((reading) =>
      mapReading(reading, (isTranslated) => ({ isTranslated, nodeArch: process.arch })),
    ),
  programs: ({ run }) => readPrograms(run),
  listeners: ({ run }) => readListeners(run),
  ephemeral: ({ run }) => knownReading(readEphemeralPorts(run)),
} satisfies {
  readonly [Name in keyof SystemReadings]: (tools: DarwinTools) => Promise<NonNullable<SystemReadings[Name]>>;
};

type StartedReadings = {
  readonly [Name in keyof typeof darwinReadings]: ReturnType<(typeof darwinReadings)[Name]>;
};

export function readDarwin({ config, limitMs, ...tools }: Tools): Promise<SystemReadings> {
  const darwinTools = { ...tools, folder: join(config.stateDir, "models") };
  const started = Object.entries(darwinReadings).map(([name, read]) => [name, read(darwinTools)]);
  return readAll(Object.fromEntries(started) as StartedReadings, limitMs);
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

function readBackup(run: RunTool, folder: string): Promise<Reading<Readings["backup"]>> {
  return readTool(run, ["tmutil", "isexcluded", folder], (text) => {
    const verdict = /^\[(Excluded|Included)\]/.exec(text)?.[1];
    return verdict === undefined ? undefined : { folder, isExcluded: verdict === "Excluded" };
  });
}
