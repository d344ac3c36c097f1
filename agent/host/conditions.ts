/** Reads of a Mac what doctor's checks turn into conditions of its Host: a few short tools, and nothing that takes long. */
import { realpath } from "node:fs/promises";
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { HostRuntime } from "../../src/api/host.ts";
import { hostConditions } from "../../src/doctor/host-conditions.ts";
import type { TakenReadings } from "../../src/doctor/readings.ts";
import { FIREWALL_FOLDER, readFirewall } from "../../src/macos/doctor/firewall.ts";
import { readFileVault, readPower, readPowerSource, readThermal } from "../../src/macos/doctor/power.ts";
import { cacheUntilStale } from "../../src/util/cache-until-stale.ts";
import { createRunTool } from "../../src/util/command.ts";
import type { Clock } from "../../src/util/ports.ts";
import type { AgentConfig } from "../config/schema.ts";

interface EngineProgram {
  readonly engine: string;
  readonly path: string;
}

/** Half a dozen short children. */
const EVERY_MS = 600_000;
/** One child; at every beat it would cost as much as all else that an idle agent reads. */
const THERMAL_MS = 30_000;
/** While the machine is slowed down: replicas wait for the next answer. Less than a beat. */
const THERMAL_RAISED_MS = 4_000;

/**
 * Heat decides where replicas are placed and is read often; settings are remembered for ten minutes. Other systems have none of
 * these conditions; a dry run does not need them.
 */
export function createHostConditions(
  { platform, dryRun }: Pick<AgentConfig, "platform" | "dryRun">,
  toolPath: string,
  clock: Clock,
): (engines: readonly HostRuntime[]) => Promise<readonly ConditionUpdate[]> {
  if (platform !== "darwin" || dryRun) return async () => [];
  let engines: readonly HostRuntime[] = [];
  const settings = cacheUntilStale(
    clock,
    () => EVERY_MS,
    () => readSettings(toolPath, programsOf(engines)),
  );
  const heat = cacheUntilStale(
    clock,
    (found) => (isRaised(found) ? THERMAL_RAISED_MS : THERMAL_MS),
    () => readHeat(toolPath),
  );
  return async (found) => {
    engines = found;
    return hostConditions("darwin", { ...(await settings()), ...(await heat()) });
  };
}

function isRaised(heat: TakenReadings): boolean {
  return hostConditions("darwin", heat).some(
    ({ type, status }) => type === "ThermalPressure" && status === "True",
  );
}

/** Those behind an address have no program here. */
function programsOf(found: readonly HostRuntime[]): readonly EngineProgram[] {
  return found.flatMap(({ name, path }) => (path?.startsWith("/") ? [{ engine: name, path }] : []));
}

/** Never rejects: a tool that fails makes its condition Unknown. */
export async function readHostConditions(
  toolPath: string,
  programs: readonly EngineProgram[],
): Promise<readonly ConditionUpdate[]> {
  const [settings, heat] = await Promise.all([readSettings(toolPath, programs), readHeat(toolPath)]);
  return hostConditions("darwin", { ...settings, ...heat });
}

async function readHeat(toolPath: string) {
  return { thermal: await readThermal(createRunTool(toolPath)) };
}

async function readSettings(toolPath: string, programs: readonly EngineProgram[]) {
  const run = createRunTool(`${toolPath}:${FIREWALL_FOLDER}`);
  // The firewall knows programs by their real paths.
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
