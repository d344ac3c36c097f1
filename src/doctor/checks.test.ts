/** Every check finds what it is for, and nothing where there is nothing; what cannot be read is never passed. */
import { describe, expect, it } from "vitest";
import { errorCatalog } from "../api/errors.ts";
import { type CheckResult, type Platform, runChecks } from "./checks/check.ts";
import type { TakenReadings } from "./readings.ts";
import { allChecks } from "./table.ts";
import { agentCases } from "./testing/agent-cases.ts";
import { type Case, type Given, hostCases } from "./testing/host-cases.ts";

const GIB = 2 ** 30;
const NOW = Date.parse("2026-06-01T12:00:00Z");

const stateDir = { path: "/var/lib/metalbridge", uid: 501, ownUid: 501 };
const store = { folder: "/models", totalBytes: 1000 * GIB, reserveBytes: 5 * GIB };
const api = { server: "https://10.0.0.1:6443", sentMs: NOW, receivedMs: NOW + 20, dateMs: NOW };
const daemon = { name: "system/x", kind: "daemon", state: "running", pid: 9, runs: 2 } as const;
const file = { path: "/etc/mb/agent.yaml", role: "config", uid: 501 } as const;

const cases: Readonly<Record<string, Case>> = { ...hostCases, ...agentCases };

function judged(code: string, platform: Platform, given: Given): readonly CheckResult[] {
  const check = allChecks.find((one) => one.code === code);
  if (check === undefined) throw new Error(`there is no check ${code}`);
  const readings = Object.entries(given).map(([key, value]) => [key, { value }]);
  return runChecks([check], platform, Object.fromEntries(readings) as TakenReadings);
}

describe.each(Object.entries(cases))("%s", (code, { platform = "darwin", fires, passes, says, command }) => {
  it("is found, with a reason and what to do", () => {
    const [result] = judged(code, platform, fires);
    expect(["error", "warning", "note"]).toContain(result?.status);
    expect(result?.finding).toMatch(says);
    expect(result?.reason).toMatch(/^\S.{20,}/);
    expect(result?.fix?.summary).toMatch(/\S/);
    if (command !== undefined) expect(result?.fix?.command).toMatch(command);
  });

  it("passes where all is well", () => {
    expect(judged(code, platform, passes).map(({ status, finding }) => [status, finding])).toEqual([
      ["ok", ""],
    ]);
  });

  it("is unknown where a reading failed, and does not apply without one", () => {
    const check = allChecks.find((one) => one.code === code);
    for (const key of Object.keys(fires)) {
      const readings = Object.fromEntries(
        Object.entries(fires).map(([name, value]) => [
          name,
          name === key ? { unknown: "the tool hangs" } : { value },
        ]),
      ) as TakenReadings;
      const [result] = runChecks(check === undefined ? [] : [check], platform, readings);
      expect(result).toMatchObject({ status: "unknown", finding: "the tool hangs" });
    }
    expect(judged(code, platform, {})).toMatchObject([{ status: "notApplicable" }]);
  });
});

describe("the table", () => {
  const codes = allChecks.map(({ code }) => code);

  it("has a case here for each check, at least 35 for a Mac and 30 for Linux", () => {
    expect([...codes].sort()).toEqual(Object.keys(cases).sort());
    const on = (platform: Platform) =>
      allChecks.filter(({ platforms }) => platforms.includes(platform)).length;
    expect([on("darwin") >= 35, on("linux") >= 30]).toEqual([true, true]);
  });

  it("has each code once, and each in the catalog", () => {
    expect(codes).toHaveLength(new Set(codes).size);
    expect(codes.filter((code) => !(code in errorCatalog))).toEqual([]);
  });
});

describe("repairs", () => {
  const repairOf = (code: string, given: Given) => judged(code, "darwin", given)[0]?.repair;

  it("are offered for the user's own files only", () => {
    const files = (uid: number) => [{ ...file, mode: 0o664, uid }];
    expect(repairOf("ConfigWritable", { stateDir, files: files(501) })).toEqual({
      do: "chmod",
      path: file.path,
      mode: 0o644,
    });
    expect(repairOf("ConfigWritable", { stateDir, files: files(0) })).toBeUndefined();
  });

  it("come only from checks that say so", () => {
    const offered = Object.entries(cases)
      .filter(
        ([code, { platform = "darwin", fires }]) => judged(code, platform, fires)[0]?.repair !== undefined,
      )
      .map(([code]) => code);
    const fixable = allChecks.filter(({ isFixable }) => isFixable).map(({ code }) => code);
    expect(fixable).toEqual(expect.arrayContaining(offered));
  });
});

describe("particular cases", () => {
  it("says more mildly that a small skew or a nearly full disk is one", () => {
    const skewed = { api: { ...api, sentMs: NOW - 8_000, receivedMs: NOW - 7_900 } };
    expect(judged("ClockSkewed", "linux", skewed)).toMatchObject([
      { status: "warning", finding: "this clock is at least 8 s behind the API server's" },
    ]);
    const nearly = { store: { ...store, freeBytes: 12 * GIB } };
    expect(judged("DiskFull", "linux", nearly)).toMatchObject([{ status: "warning" }]);
  });

  it("knows that a LaunchDaemon is exempt from Local Network privacy", () => {
    const { fires } = cases.LocalNetworkBlocked ?? {};
    const [result] = judged("LocalNetworkBlocked", "darwin", { ...fires, service: { found: daemon } });
    expect(result).toMatchObject({ status: "note", finding: expect.stringContaining("exempt") });
    const old = { ...fires, machine: { osVersion: "14.5" } };
    expect(judged("LocalNetworkBlocked", "darwin", old)).toMatchObject([{ status: "notApplicable" }]);
  });

  it("reports an engine that is installed and unusable under the engine's own code", () => {
    const problem = { code: "RuntimeTooOld", message: "llama-server is too old" } as const;
    const engines = [{ runtime: "llamacpp", path: "", problem }];
    expect(judged("RuntimeNotInstalled", "darwin", { engines })).toMatchObject([
      { code: "RuntimeTooOld", finding: "llama-server is too old" },
    ]);
  });

  it("gives Linux a command of Linux", () => {
    const [result] = judged("ClockSkewed", "linux", cases.ClockSkewed?.fires ?? {});
    expect(result?.fix?.command).toBe("sudo timedatectl set-ntp true");
  });
});
