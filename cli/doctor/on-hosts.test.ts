import { type IncomingMessage, request, type ServerResponse } from "node:http";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { CheckResult } from "../../src/doctor/checks/check.ts";
import { serveModel } from "../../test/fixtures/model-server.ts";
import { parseReport, readReport } from "./on-hosts.ts";
import { exitCodeOfHosts, type HostReport, hostFields, renderHostReports } from "./render.ts";

const result = (status: CheckResult["status"], code: string, finding = ""): CheckResult =>
  ({ status, code, finding, check: "a check", reason: "because" }) as CheckResult;

const report = (host: string, ...results: readonly CheckResult[]): HostReport => ({
  host,
  report: { host, platform: "darwin", machine: "", tookMs: 900, results, fixed: [], inventory: {} },
});

const well = report("mac-1", result("ok", "SleepEnabled"), result("notApplicable", "OomKilled"));
const warned = report("mac-2", result("warning", "SwapHeavy", "4 GiB"), result("note", "PowerNapOn", "on"));
const failing = report(
  "mac-3",
  result("error", "SleepEnabled", "sleeps"),
  result("unknown", "FileVaultOn", "?"),
);
const absent: HostReport = {
  host: "mac-4",
  error: new MetalbridgeError("RemoteAccessOff", "host mac-4 offers nothing"),
};

test("several hosts are a table with errors first, then those that are well", () => {
  const lines = renderHostReports([well, warned, failing, absent], false).split("\n");
  expect(lines.map((line) => line.split(/ {2,}/).slice(0, 3).join(" "))).toEqual([
    "HOST STATUS CODE",
    "mac-3 error SleepEnabled",
    "mac-4 error RemoteAccessOff",
    "mac-2 warning SwapHeavy",
    "mac-3 unknown FileVaultOn",
    "mac-2 note PowerNapOn",
    "1 of 4 hosts without findings: mac-1",
    "for reasons and fixes: metalbridge doctor --host <name>",
  ]);
  expect(renderHostReports([well, well], false)).toBe("2 of 2 hosts without findings: mac-1, mac-1");
  expect(renderHostReports([], false)).toBe("there are no hosts");
});

test("one host is shown in full, with what was not run there and the command for it", () => {
  const text = renderHostReports([failing], false);
  expect(text).toMatch(/^mac-3: \n[\s\S]*error {4}SleepEnabled: sleeps/);
  expect(text).toMatch(
    /not run remotely: --fix, .*, FileVaultOn; on mac-3 run\n {2}sudo metalbridge doctor$/,
  );
});

test("one host that cannot be asked is shown with its remedy, without the command that was just run", () => {
  const lines = renderHostReports([absent], false).split("\n");
  expect(lines[0]).toBe("mac-4: not checked");
  expect(lines[2]).toMatch(/^error {4}RemoteAccessOff: host mac-4 offers nothing$/);
  expect(lines[3]).toMatch(/^ {9}fix: .*remoteAccess/);
  expect(lines.join("\n")).not.toContain("doctor --host");
});

test("exit codes and JSON are those of the worst host; one that cannot be asked has failed", () => {
  expect([[well], [well, warned], [warned, failing], [well, absent]].map(exitCodeOfHosts)).toEqual([
    0, 3, 1, 1,
  ]);
  expect(hostFields([well, absent])).toMatchObject([
    { host: "mac-1", summary: { ok: 1 } },
    { host: "mac-4", error: { code: "RemoteAccessOff", summary: expect.stringContaining("remoteAccess") } },
  ]);
});

test("a host cannot answer with anything but a report, and one of a reasonable size", () => {
  const one = { code: "NewCheck", check: "c", status: "ok", finding: "", reason: "" };
  const whole = { platform: "linux", tookMs: 1, results: [one], inventory: { any: 1 } };
  expect(parseReport(JSON.stringify(whole), "mac").results).toMatchObject([{ code: "NewCheck" }]);
  const bad = [
    "not JSON",
    "{}",
    JSON.stringify({ ...whole, results: Array.from({ length: 1_001 }, () => one) }),
    JSON.stringify({ ...whole, results: [{ ...one, finding: "x".repeat(10_001) }] }),
    JSON.stringify({ ...whole, results: [{ ...one, status: "fine" }] }),
  ];
  const check = (value: unknown) => {
    const refused = () => parseReport(JSON.stringify({ ...whole, results: [value] }), "mac");
    expect(refused).toThrow(expect.objectContaining({ code: "RemoteRequestRefused" }));
  };
  fc.assert(fc.property(fc.jsonValue(), check));
  for (const body of bad)
    expect(() => parseReport(body, "mac")).toThrow(expect.objectContaining({ code: "RemoteRequestRefused" }));
});

test.each<[string, RegExp, (response: ServerResponse) => unknown]>([
  [
    "ends early",
    /mac sent an incomplete doctor report: aborted/,
    (response) => response.write("{", () => response.destroy()),
  ],
  [
    "is too long",
    /mac sent an incomplete doctor report: .* longer than 4194304 bytes/,
    (response) => response.end("x".repeat(5 << 20)),
  ],
  ["does not end", /mac sent an incomplete doctor report: aborted/, (response) => response.write("{")],
])("a report that %s is the failure of its host, not of the command", async (_, why, send) => {
  const host = await serveModel((_request, response) => void send(response));
  const asked = request(host.url, { signal: AbortSignal.timeout(500) });
  const answer = await new Promise<IncomingMessage>((resolve) => asked.once("response", resolve).end());
  asked.on("error", () => undefined);
  await expect(readReport(answer, "mac")).rejects.toMatchObject({
    code: "RemoteHostUnreachable",
    message: expect.stringMatching(why),
  });
});
