/** Reads energy settings, power source, heat, disk encryption and updates with `pmset`, `fdesetup` and `defaults`. */
import type { Reading, Readings } from "../../doctor/readings.ts";
import type { RunTool } from "../../util/command.ts";
import { readTool } from "./reading.ts";

export function readPower(run: RunTool): Promise<Reading<Readings["power"]>> {
  return readTool(run, ["pmset", "-g"], (text) => {
    const settings = new Map<string, number>();
    for (const [, key = "", value] of text.matchAll(/^\s*([A-Za-z][A-Za-z ]*?)\s+(\d+)\b/gm))
      settings.set(key.toLowerCase(), Number(value));
    const sleep = settings.get("sleep");
    const restart = settings.get("autorestart");
    if (sleep === undefined && restart === undefined) return undefined;
    return {
      sleepMinutes: sleep,
      isSleepDisabled: settings.get("sleepdisabled") === 1,
      restartsAfterPowerLoss: restart === undefined ? undefined : restart === 1,
      isPowerNapOn: settings.get("powernap") === 1,
      isLowPowerModeOn: settings.get("lowpowermode") === 1,
    };
  });
}

export function readPowerSource(run: RunTool): Promise<Reading<Readings["powerSource"]>> {
  return readTool(run, ["pmset", "-g", "batt"], (text) => {
    const source = /Now drawing from '([^']+)'/.exec(text)?.[1];
    if (source === undefined) return undefined;
    return {
      source: source.startsWith("Battery") ? "battery" : "mains",
      hasBattery: text.includes("InternalBattery"),
    };
  });
}

export function readThermal(run: RunTool): Promise<Reading<Readings["thermal"]>> {
  return readTool(run, ["pmset", "-g", "therm"], (text) => {
    const limit = /CPU_Speed_Limit\s*=\s*(\d+)/.exec(text)?.[1];
    // Apple silicon reports levels instead of a limit; 255 is an unknown level.
    const levels = [...text.matchAll(/(?:thermal|performance) warning level\s*[=:]\s*(\d+)/gi)].map(
      ([, level]) => Number(level),
    );
    const warningLevel = Math.max(0, ...levels.filter((level) => level !== 255));
    if (limit !== undefined || warningLevel > 0)
      return { speedLimitPercent: limit === undefined ? undefined : Number(limit), warningLevel };
    return /thermal warning level|CPU power status/i.test(text) ? {} : undefined;
  });
}

export function readFileVault(run: RunTool): Promise<Reading<Readings["fileVault"]>> {
  return readTool(run, ["fdesetup", "status"], (text) => {
    const state = /FileVault is (On|Off)/.exec(text)?.[1];
    return state === undefined ? undefined : { isOn: state === "On" };
  });
}

/** `defaults` fails for a key that was never set. In this case macOS asks before it installs an update. */
export async function readUpdates(run: RunTool): Promise<Reading<Readings["updates"]>> {
  const domain = "/Library/Preferences/com.apple.SoftwareUpdate";
  const result = await run("defaults", ["read", domain, "AutomaticallyInstallMacOSUpdates"]);
  if ("failed" in result) return { unknown: result.failed };
  if (result.code !== 0)
    return /does not exist/.test(result.stderr)
      ? { value: { isAutomatic: false } }
      : { unknown: `defaults exited with ${result.code}` };
  const value = result.stdout.trim();
  return /^[01]$/.test(value)
    ? { value: { isAutomatic: value === "1" } }
    : { unknown: "the output of defaults is not understood" };
}
