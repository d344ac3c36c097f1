/** Staying awake, and coming back after a power failure. */
import { type Check, defineCheck } from "./check.ts";

const darwin = ["darwin"] as const;

/** Laptops have a battery; a Mac mini behind an uninterruptible power supply has none of its own. */
export const powerChecks: readonly Check[] = [
  defineCheck({
    code: "SleepEnabled",
    title: "sleep when idle",
    severity: "error",
    platforms: darwin,
    reason:
      "the agent keeps the machine awake only while engines run; asleep, it renews no Lease and gets no new replica",
    needs: ["power"],
    judge: ({ power: { sleepMinutes, isSleepDisabled } }) =>
      isSleepDisabled || sleepMinutes === undefined || sleepMinutes === 0
        ? []
        : [{ finding: `the machine sleeps after ${sleepMinutes} min` }],
  }),
  defineCheck({
    code: "LidSleeps",
    title: "sleep when the lid is closed",
    severity: "warning",
    platforms: darwin,
    reason: "no power assertion prevents that sleep: running engines stop answering at once",
    needs: ["power", "powerSource"],
    judge: ({ power, powerSource: { hasBattery } }) => {
      if (!hasBattery) return "notApplicable";
      return power.isSleepDisabled ? [] : [{ finding: "closing the lid puts this Mac to sleep" }];
    },
  }),
  defineCheck({
    code: "PowerNapOn",
    title: "Power Nap",
    severity: "note",
    platforms: darwin,
    reason: "Power Nap wakes a sleeping machine briefly, so the host appears reachable although it is not",
    needs: ["power"],
    judge: ({ power }) => (power.isPowerNapOn ? [{ finding: "Power Nap is on" }] : []),
  }),
  defineCheck({
    code: "NoRestartAfterPowerLoss",
    title: "restart after a power failure",
    severity: "warning",
    platforms: darwin,
    reason: "a headless machine stays off until someone presses its button",
    needs: ["power"],
    judge: ({ power: { restartsAfterPowerLoss } }) => {
      if (restartsAfterPowerLoss === undefined) return "notApplicable";
      return restartsAfterPowerLoss ? [] : [{ finding: "autorestart is 0" }];
    },
  }),
  defineCheck({
    code: "FileVaultOn",
    title: "FileVault",
    severity: "warning",
    platforms: darwin,
    reason: "after a boot nothing, including the agent, starts until the disk is unlocked at the machine",
    needs: ["fileVault"],
    judge: ({ fileVault: { isOn } }) => (isOn ? [{ finding: "FileVault is on" }] : []),
  }),
  defineCheck({
    code: "OnBattery",
    title: "power source",
    severity: "error",
    reason: "engines drain a battery within hours, and a Mac on battery slows its GPU",
    needs: ["powerSource"],
    judge: ({ powerSource: { source } }) =>
      source === "battery" ? [{ finding: "the machine draws from its battery" }] : [],
  }),
  defineCheck({
    code: "LowPowerMode",
    title: "Low Power Mode",
    severity: "warning",
    platforms: darwin,
    reason: "it lowers the clock of CPU and GPU",
    needs: ["power"],
    judge: ({ power }) => (power.isLowPowerModeOn ? [{ finding: "Low Power Mode is on" }] : []),
  }),
];
