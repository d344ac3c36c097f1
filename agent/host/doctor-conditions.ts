/** Findings that are conditions of the Host: those that cannot be seen from the cluster. */
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { ErrorCode } from "../../src/api/errors.ts";
import { type CheckResult, type Known, type Platform, runChecks } from "../../src/doctor/checks/check.ts";
import { machineChecks } from "../../src/doctor/checks/machine.ts";
import { networkChecks } from "../../src/doctor/checks/network.ts";
import { powerChecks } from "../../src/doctor/checks/power.ts";
import type { TakenReadings } from "../../src/doctor/readings.ts";

interface HostCondition {
  readonly type: string;
  /** The most important first: it is the reason. */
  readonly codes: readonly ErrorCode[];
  readonly fine: string;
}

const CONDITIONS: readonly HostCondition[] = [
  {
    type: "InboundBlocked",
    codes: ["FirewallBlocksAll", "FirewallBlocksEngine"],
    fine: "the firewall lets the engines accept connections",
  },
  {
    type: "PowerAtRisk",
    codes: ["OnBattery", "SleepEnabled", "LidSleeps", "LowPowerMode"],
    fine: "the machine has power and stays awake",
  },
  {
    type: "RestartAtRisk",
    codes: ["NoRestartAfterPowerLoss", "FileVaultOn"],
    fine: "after a power failure the machine starts, and its agent with it",
  },
  { type: "ThermalPressure", codes: ["ThermalThrottled"], fine: "the machine runs at full speed" },
];

/** Their types; the agent alone writes them. */
export const DOCTOR_CONDITIONS: readonly string[] = CONDITIONS.map(({ type }) => type);

const checks = [...machineChecks, ...powerChecks, ...networkChecks];

/** One for each type, from the same checks as doctor's. */
export function hostConditions(
  platform: Platform,
  taken: TakenReadings,
  known: Known = {},
): readonly ConditionUpdate[] {
  return CONDITIONS.map(({ type, codes, fine }) => {
    const own = checks.filter(({ code }) => codes.includes(code));
    const results = runChecks(own, platform, taken, known).toSorted(
      (a, b) => codes.indexOf(a.code) - codes.indexOf(b.code),
    );
    const bad = results.filter(({ status }) => status === "error" || status === "warning");
    const [first] = bad;
    if (first !== undefined)
      return { type, status: "True", reason: first.code, message: bad.map(sentence).join("; ") };
    const unknown = results.find(({ status }) => status === "unknown");
    return unknown === undefined
      ? { type, status: "False", reason: "Normal", message: fine }
      : { type, status: "Unknown", reason: "ReadingFailed", message: unknown.finding };
  });
}

function sentence({ finding, fix }: CheckResult): string {
  return fix?.command === undefined ? finding : `${finding}; ${fix.summary}: ${fix.command}`;
}
