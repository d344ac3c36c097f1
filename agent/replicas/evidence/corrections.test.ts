import { expect, test } from "vitest";
import { fetchRetryMs, findCorrection, retryDelayMs } from "./corrections.ts";
import { defaultTimings as timings } from "./timings.ts";

const MANY_FAILURES = 12;
const options = { timings, random: 1 };

test.each([
  "SecretMissing",
  "SecretIncomplete",
  "SecretUnreadable",
  "CertificateInvalid",
  "ApiKeysTooMany",
  "RuntimeNotInstalled",
  "RuntimeNotExecutable",
  "SettingUnavailable",
  "PortsExhausted",
] as const)("%s is read again within 5 s, however often it failed", (code) => {
  const delayMs = retryDelayMs(code, MANY_FAILURES, { isOnHost: false }, options);
  expect(delayMs).toBeLessThanOrEqual(5_000);
});

test.each(["SourceNotFound", "FileUnreadable", "SourceIsNotAModel"] as const)(
  "%s is read again within 5 s where it is about a file on the host, and backs off where another machine is asked",
  (code) => {
    expect(retryDelayMs(code, MANY_FAILURES, { isOnHost: true }, options)).toBeLessThanOrEqual(5_000);
    expect(retryDelayMs(code, MANY_FAILURES, { isOnHost: false }, options)).toBeGreaterThanOrEqual(
      timings.fetchRetryMaxMs,
    );
  },
);

test("EngineStartFailed backs off: each attempt starts a program", () => {
  expect(
    retryDelayMs("EngineStartFailed", MANY_FAILURES, { isOnHost: false }, options),
  ).toBeGreaterThanOrEqual(timings.fetchRetryMaxMs);
});

test("refused credentials are retried once their Secret has changed, and a full disk once it has free space", () => {
  const secret = { name: "hub", version: "7" };
  expect(findCorrection("SourceForbidden", { isOnHost: false, secret })).toEqual({
    what: "secret",
    ...secret,
  });
  expect(findCorrection("SourceForbidden", { isOnHost: false })).toBeUndefined();
  expect(findCorrection("DiskFull", { isOnHost: false, roomBytes: 10 })).toEqual({
    what: "disk",
    roomBytes: 10,
  });
  expect(findCorrection("SourceStalled", { isOnHost: false, secret, roomBytes: 10 })).toBeUndefined();
});

test("a failed fetch is retried after five seconds, then with growing delays", () => {
  expect([1, 2, 99].map((failures) => fetchRetryMs(timings, failures, 0))).toEqual([5_000, 10_000, 300_000]);
});
