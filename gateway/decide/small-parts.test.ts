import { expect, test } from "vitest";
import type { FinishedRequest } from "../envoy/access-log.ts";
import { hasReplicaFailed, speedOf, tokensOf } from "../finished-requests.ts";
import { userOf } from "../keys/authentication.ts";
import { userJwtHeaders } from "../testing/user-jwt.ts";
import { type Assignment, decodeAssignment, encodeAssignment } from "./assignment.ts";
import { readWaitSeconds } from "./call.ts";

const NOW = Date.parse("2026-11-01T12:00:00Z");

test.each([
  [undefined, 300],
  ["30", 30],
  ["0", 0],
  ["1.5", 1.5],
  ["86400", 590],
  ["2026-11-01T12:00:20Z", 20],
  ["2026-11-01T11:00:00Z", 0],
])("x-request-deadline %s waits for %s s", (header, seconds) => {
  expect(readWaitSeconds(header, NOW)).toBe(seconds);
});

test.each(["soon", "-5 minutes", ""])("x-request-deadline %j is refused", (header) => {
  expect(readWaitSeconds(header, NOW)).toMatchObject({ code: "invalid_deadline" });
});

const assignment: Assignment = {
  caller: "team-a",
  model: "apps/chat",
  host: "mac-1",
  waitedMs: 12,
  traceParent: undefined,
};

test("an assignment is decoded as it was encoded, and other text is not decoded", () => {
  expect(decodeAssignment(encodeAssignment(assignment))).toEqual(assignment);
  expect(decodeAssignment("")).toBeUndefined();
  expect(decodeAssignment("bm90IGpzb24")).toBeUndefined();
});

const finished = (given: Partial<FinishedRequest> = {}): FinishedRequest => ({
  requestId: "1",
  status: 200,
  method: "POST",
  path: "/v1/chat/completions",
  endpoint: "192.0.2.1:8080",
  attempts: 1,
  bytesReceived: 400,
  bytesSent: 3_600,
  startedMs: NOW,
  durationMs: 2_000,
  firstByteMs: 100,
  ...given,
});

test("tokens are those of the engine, or an estimate that is marked", () => {
  const tokens = { in: 10, out: 40, cached: 4 };
  expect(tokensOf(finished({ tokens }))).toEqual({
    tokensIn: 10,
    tokensOut: 40,
    cached: 4,
    isEstimated: false,
  });
  expect(tokensOf(finished({ flags: "DC" }))).toEqual({
    tokensIn: 100,
    tokensOut: 20,
    cached: 0,
    isEstimated: true,
  });
});

test("a recording counts as no prompt", () => {
  for (const path of ["/v1/audio/transcriptions", "/s/apps/chat/v1/audio/translations"])
    expect(tokensOf(finished({ path, flags: "DC" }))).toMatchObject({ tokensIn: 0, tokensOut: 20 });
});

test("a request that no replica has worked on costs nothing", () => {
  expect(tokensOf(finished({ status: 400 }))).toMatchObject({ tokensIn: 0, isEstimated: false });
  const { endpoint: _, ...unsent } = finished({ status: 0 });
  expect(tokensOf(unsent)).toMatchObject({ tokensIn: 0, isEstimated: false });
});

test("the speed of a replica comes from requests with enough tokens", () => {
  expect(speedOf(finished({ tokens: { in: 1, out: 40, cached: 0 } }))).toBe(20);
  expect(speedOf(finished({ tokens: { in: 1, out: 3, cached: 0 } }))).toBeUndefined();
  expect(speedOf(finished())).toBeUndefined();
});

test("a failed connection counts against the replica, an error of the engine or a client that left does not", () => {
  expect(hasReplicaFailed(finished({ status: 503, flags: "UF" }))).toBe(true);
  expect(hasReplicaFailed(finished({ status: 502, flags: "UC,URX" }))).toBe(true);
  expect(hasReplicaFailed(finished({ status: 500 }))).toBe(false);
  expect(hasReplicaFailed(finished({ status: 0, flags: "DC" }))).toBe(false);
});

const sign = (claims: object, secret = "s3cret") => userJwtHeaders(claims, secret);

test("a user is known by a token that the secret has signed", () => {
  expect(userOf(sign({ id: "ann", email: "a@example.com" }), "s3cret", NOW)).toBe("ann");
  const claims = {
    sub: "u-1",
    email: "a@example.com",
    role: "user",
    iss: "open-webui",
    exp: NOW / 1_000 + 300,
  };
  expect(userOf(sign(claims), "s3cret", NOW)).toBe("u-1");
  expect(userOf(sign({ id: "ann", exp: NOW / 1_000 - 1 }), "s3cret", NOW)).toBeUndefined();
  expect(userOf(sign({ id: "ann" }, "other"), "s3cret", NOW)).toBeUndefined();
  expect(userOf({ "x-openwebui-user-jwt": "a.b" }, "s3cret", NOW)).toBeUndefined();
  expect(userOf({}, "s3cret", NOW)).toBeUndefined();
});
