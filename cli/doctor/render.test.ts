import { describe, expect, it } from "vitest";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { doctorExitCode, renderDoctorReport } from "./render.ts";

const result = (status: CheckResult["status"], code: CheckResult["code"] = "SleepEnabled"): CheckResult => ({
  code,
  check: "sleep when idle",
  status,
  reason: "asleep, it renews no Lease",
  finding: status === "ok" ? "" : "the machine sleeps after 1 min",
  ...(status === "error" ? { fix: { summary: "turn off sleep", command: "sudo pmset -a sleep 0" } } : {}),
});

describe("the exit code", () => {
  it.each([
    [["ok", "note", "notApplicable"], 0],
    [["ok", "warning"], 3],
    [["unknown"], 3],
    [["error", "warning", "unknown"], 1],
  ] as const)("of %j is %i", (statuses, code) => {
    expect(doctorExitCode(statuses.map((status) => result(status)))).toBe(code);
  });
});

describe("the report", () => {
  const report = {
    host: "mini-1",
    platform: "darwin",
    machine: "Apple M4, macOS 15.6",
    tookMs: 1_234,
    inventory: {},
    results: [
      result("ok", "PowerNapOn"),
      result("unknown", "OnBattery"),
      result("unknown", "LidSleeps"),
      result("error"),
    ],
    fixed: [
      { code: "StateDirOpen", command: "chmod 755 /state" },
      { code: "ConfigWritable", command: "chmod 644 /c", failed: "EPERM" },
    ],
  };

  it("has errors with reason and command, and one line for each reason of what is unknown", () => {
    expect(renderDoctorReport(report, { isAll: false })).toBe(
      `mini-1: Apple M4, macOS 15.6
fixed: chmod 755 /state
not fixed: chmod 644 /c: EPERM

error    SleepEnabled: the machine sleeps after 1 min
         why: asleep, it renews no Lease
         fix: turn off sleep
           sudo pmset -a sleep 0

unknown  the machine sleeps after 1 min
         not checked: OnBattery, LidSleeps

1 error, 0 warnings, 2 unknown, 0 notes, 1 passed, 0 not applicable (1.2 s)`,
    );
  });

  it("lists passed checks when asked", () => {
    expect(renderDoctorReport(report, { isAll: true })).toMatch(/^ok {2}PowerNapOn {2}sleep when idle$/m);
  });
});
