import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { explainFailure, failureOfNetwork, failureOfResponse } from "./errors.ts";

const status = (code: number, reason: string, message = "m", details?: object) =>
  JSON.stringify({ kind: "Status", apiVersion: "v1", code, reason, message, details });

describe("failures", () => {
  it.each([
    [400, "BadRequest", "invalid", "ApiObjectInvalid"],
    [401, "Unauthorized", "unauthorized", "ApiUnauthorized"],
    [403, "Forbidden", "forbidden", "ApiForbidden"],
    [404, "NotFound", "notFound", "ApiObjectNotFound"],
    [409, "AlreadyExists", "alreadyExists", "ApiObjectConflict"],
    [409, "Conflict", "conflict", "ApiObjectConflict"],
    [410, "Expired", "gone", "ApiObjectConflict"],
    [422, "Invalid", "invalid", "ApiObjectInvalid"],
    [429, "TooManyRequests", "throttled", "ApiThrottled"],
    [500, "InternalError", "unavailable", "ApiUnavailable"],
    [503, "ServiceUnavailable", "unavailable", "ApiUnavailable"],
    [504, "Timeout", "unavailable", "ApiUnavailable"],
    [302, "", "unexpected", "ApiUnexpected"],
  ])("%i %s is %s, explained as %s", (code, reason, kind, errorCode) => {
    const failure = failureOfResponse(code, {}, status(code, reason));
    expect(failure).toMatchObject({ kind, status: code, message: "m" });
    expect(explainFailure(failure).code).toBe(errorCode);
  });

  it("name the account of the credential in their remedy", () => {
    const failure = failureOfResponse(401, {}, status(401, "Unauthorized"));
    expect(explainFailure(failure, { account: "mac-1" }).remedy.command).toBe(
      "kubectl create token mac-1 -n metalbridge-hosts",
    );
  });

  it("never ask for a wait of more than a minute", () => {
    for (const failure of [
      failureOfResponse(429, { "retry-after": "4294967296" }, ""),
      failureOfResponse(429, {}, status(429, "TooManyRequests", "m", { retryAfterSeconds: 1e9 })),
    ])
      expect(failure.retryAfterMs).toBe(60_000);
  });

  it("carry how long to wait, from the header or the body", () => {
    expect(failureOfResponse(429, { "retry-after": "3" }, status(429, "")).retryAfterMs).toBe(3_000);
    expect(failureOfResponse(503, {}, status(503, "", "m", { retryAfterSeconds: 2 })).retryAfterMs).toBe(
      2_000,
    );
    expect(failureOfResponse(503, { "retry-after": "soon" }, status(503, "")).retryAfterMs).toBeUndefined();
  });

  it("of something that is not the API server quote its beginning", () => {
    const failure = failureOfResponse(502, {}, `<html>\n  <h1>Bad gateway</h1>${"x".repeat(10_000)}`);
    expect(failure).toMatchObject({ kind: "unavailable", status: 502 });
    expect(failure.message).toContain("<html> <h1>Bad gateway");
    expect(failure.message.length).toBeLessThan(300);
  });

  it("of the network name the server; an untrusted certificate gets a reason of its own", () => {
    const refused = failureOfNetwork(
      Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
      "https://h:1",
    );
    expect(refused).toMatchObject({ kind: "unreachable", status: 0, reason: "ECONNREFUSED" });
    expect(explainFailure(refused).code).toBe("ApiUnreachable");
    const untrusted = failureOfNetwork(
      Object.assign(new Error("unable to verify"), { code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" }),
      "https://h:1",
    );
    expect(explainFailure(untrusted).code).toBe("ApiCertificateUntrusted");
  });
});

test("any body that a server sends is a failure with a bounded message", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 300, max: 599 }),
      fc.oneof(fc.string(), anyStatus().map(JSON.stringify)),
      (code, body) => {
        const failure = failureOfResponse(code, {}, body);
        expect(typeof failure.message).toBe("string");
        expect(failure.message.length).toBeLessThanOrEqual(2_000);
      },
    ),
  );
});

test("a conflict of managers names their fields", () => {
  const causes = [
    { reason: "FieldManagerConflict", message: "m", field: ".spec.replicas" },
    { reason: "Other", field: ".spec.x" },
  ];
  const failure = failureOfResponse(409, {}, status(409, "Conflict", "m", { causes }));
  expect(failure.conflictFields).toEqual([".spec.replicas"]);
});

function anyStatus() {
  const anything = fc.anything({ withDate: false, withBigInt: false });
  return fc.record(
    {
      kind: fc.constant("Status"),
      message: fc.oneof(fc.string({ maxLength: 5_000 }), anything),
      reason: anything,
      code: anything,
      details: fc.oneof(anything, fc.record({ causes: anything, retryAfterSeconds: anything })),
    },
    { requiredKeys: ["kind"] },
  );
}
