/** Reads the state of a Mac that doctor's checks turn into conditions of its Host, with a few short tools. */
import { realpath } from "node:fs/promises";
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { HostRuntime } from "../../src/api/host.ts";
import type { Readings, TakenReadings } from "../../src/doctor/readings.ts";
import { FIREWALL_FOLDER, readFirewall } from "../../src/macos/doctor/firewall.ts";
import { readFileVault, readPower, readPowerSource, readThermal } from "../../src/macos/doctor/power.ts";
import { cacheUntilStale } from "../../src/util/cache-until-stale.ts";
import { createRunTool } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import { hostConditions } from "./doctor-conditions.ts";

/** What makes a measured speed incomparable. */
export interface SpeedConditions {
  /** "nominal", or how the processor is throttled; undefined if it cannot be read. */
  readonly thermal: string | undefined;
  /** False if it cannot be read. */
  readonly isOnBattery: boolean;
}

interface EngineProgram {
  readonly engine: string;
  readonly path: string;
}

/** A reading of settings starts half a dozen short processes. */
const SETTINGS_MS = 600_000;
/** A reading starts one process; at every heartbeat that would cost as much as everything else that an idle agent reads. */
const THERMAL_MS = 30_000;
/** Used under thermal pressure, when replicas wait for the next reading. Less than the heartbeat interval. */
const THERMAL_RAISED_MS = 4_000;

/**
 * Thermal pressure affects the placement of replicas and is read often; settings are cached for ten minutes. Other systems have
 * none of these conditions, and a dry run does not need them.
 */
export function createHostConditions(
  host: { readonly hostName: string; readonly platform: string; readonly dryRun: boolean },
  toolPath: string,
  clock: Clock,
): (engines: readonly HostRuntime[]) => Promise<readonly ConditionUpdate[]> {
  if (host.platform !== "darwin" || host.dryRun) return async () => [];
  let engines: readonly HostRuntime[] = [];
  const settings = cacheUntilStale(
    clock,
    () => SETTINGS_MS,
    () => readSettings(toolPath, programsOf(engines)),
  );
  const thermal = cacheUntilStale(
    clock,
    (found) => (hasThermalPressure(found) ? THERMAL_RAISED_MS : THERMAL_MS),
    () => readThermalOf(toolPath),
  );
  return async (found) => {
    engines = found;
    return hostConditions("darwin", { ...(await settings()), ...(await thermal()) }, { host: host.hostName });
  };
}

function hasThermalPressure(readings: TakenReadings): boolean {
  return hostConditions("darwin", readings).some(
    ({ type, status }) => type === "ThermalPressure" && status === "True",
  );
}

/** Engines behind a configured address have no program path. */
function programsOf(found: readonly HostRuntime[]): readonly EngineProgram[] {
  return found.flatMap(({ name, path }) => (path?.startsWith("/") ? [{ engine: name, path }] : []));
}

/** Never rejects: a tool that fails makes its condition Unknown. */
export async function readHostConditions(
  toolPath: string,
  programs: readonly EngineProgram[],
): Promise<readonly ConditionUpdate[]> {
  const [settings, thermal] = await Promise.all([readSettings(toolPath, programs), readThermalOf(toolPath)]);
  return hostConditions("darwin", { ...settings, ...thermal });
}

/** Starts two processes on a Mac, and none elsewhere. */
export async function readSpeedConditions(platform: string, toolPath: string): Promise<SpeedConditions> {
  if (platform !== "darwin") return { thermal: undefined, isOnBattery: false };
  const [{ thermal }, power] = await Promise.all([
    readThermalOf(toolPath),
    readPowerSource(createRunTool(toolPath)),
  ]);
  return {
    thermal: "value" in thermal ? thermalText(thermal.value) : undefined,
    isOnBattery: "value" in power && power.value.source === "battery",
  };
}

function thermalText({ speedLimitPercent = 100, warningLevel = 0 }: Readings["thermal"]): string {
  if (speedLimitPercent < 100) return `limited to ${speedLimitPercent}%`;
  return warningLevel > 0 ? `at thermal warning level ${warningLevel}` : "nominal";
}

async function readThermalOf(toolPath: string) {
  return { thermal: await readThermal(createRunTool(toolPath)) };
}

async function readSettings(toolPath: string, programs: readonly EngineProgram[]) {
  const run = createRunTool(`${toolPath}:${FIREWALL_FOLDER}`);
  // The firewall lists programs by their real paths.
  const real = await Promise.all(
    programs.map(async ({ engine, path }) => ({ engine, path: await realpath(path).catch(() => path) })),
  );
  const [power, powerSource, fileVault, firewall] = await Promise.all([
    readPower(run),
    readPowerSource(run),
    readFileVault(run),
    readFirewall(run, real),
  ]);
  return { power, powerSource, fileVault, firewall };
}
