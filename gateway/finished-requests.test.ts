import { expect, test } from "vitest";
import type { Log } from "../src/util/ports.ts";
import { encodeAssignment } from "./decide/assignment.ts";
import type { FinishedRequest } from "./envoy/access-log.ts";
import {
  countRefusal,
  createFinishedRequests,
  createTlsFailures,
  hasReplicaFailed,
  requestSpeedOf,
  tokensOf,
  wasCanceled,
} from "./finished-requests.ts";
import { createRequestMetrics } from "./metrics.ts";
import type { Outcome } from "./requests.ts";
import type { TracedRequest } from "./telemetry/span.ts";

const nothing = () => {};
const quiet: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => quiet };

test("a service whose certificate cannot be verified is reported once, and again after a success", () => {
  const warned: object[] = [];
  const nothing = () => {};
  const log: Log = {
    debug: nothing,
    info: nothing,
    warn: (data: object) => void warned.push(data),
    error: nothing,
    child: () => log,
  };
  const finished = createTlsFailures(log);
  const details = "upstream_reset_before_response_started{remote_connection_failure|TLS_error:X}";
  const failed = { cluster: "default/a", endpoint: "192.0.2.1:1", details };
  finished(failed);
  finished(failed);
  finished({ ...failed, details: "upstream_reset_before_response_started{connection_timeout}" });
  expect(warned).toEqual([{ service: "default/a", endpoint: "192.0.2.1:1", details }]);
  finished({ ...failed, details: "via_upstream" });
  finished(failed);
  expect(warned).toHaveLength(2);
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
  startedMs: 0,
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
  expect(requestSpeedOf(finished({ tokens: { in: 1, out: 40, cached: 0 } }))).toBe(20);
  expect(requestSpeedOf(finished({ tokens: { in: 1, out: 3, cached: 0 } }))).toBeUndefined();
  expect(requestSpeedOf(finished())).toBeUndefined();
});

test("a failed connection counts against the replica, an error of the engine or a client that left does not", () => {
  expect(hasReplicaFailed(finished({ status: 503, flags: "UF" }))).toBe(true);
  expect(hasReplicaFailed(finished({ status: 502, flags: "UC,URX" }))).toBe(true);
  expect(hasReplicaFailed(finished({ status: 500 }))).toBe(false);
  expect(hasReplicaFailed(finished({ status: 0, flags: "DC" }))).toBe(false);
});

test.each([
  [{ status: 0, flags: "DC" }, true],
  [{ status: 0, flags: "DR" }, true],
  [{ status: 504, flags: "SI" }, true],
  [{ status: 200, flags: "DC", firstByteMs: 100 }, false],
  [{ status: 0, flags: "DC", endpoint: undefined }, false],
  [{ status: 503, flags: "UF" }, false],
  [{ status: 200 }, false],
])("%o was canceled before its response: %s", (given, expected) => {
  expect(wasCanceled(finished({ firstByteMs: undefined, ...given }))).toBe(expected);
});

test("a refusal counts as a failed request of the service that is its cause, and of no other", () => {
  const metrics = createRequestMetrics();
  countRefusal(metrics, { code: "queue_full", message: "", service: "apps/chat" });
  countRefusal(metrics, { code: "model_unavailable", message: "", service: "apps/chat" });
  countRefusal(metrics, { code: "rate_limit_exceeded", message: "" });
  expect([...metrics.requests.samples()].map(({ labels, value }) => [labels, value])).toEqual([
    [{ namespace: "apps", service: "chat", code: "429" }, 1],
    [{ namespace: "apps", service: "chat", code: "503" }, 1],
  ]);
  expect([...metrics.refusals.samples()]).toHaveLength(3);
});

test("the time to the first byte of a failure, which is often short, is not counted; a second try names who answered", () => {
  const metrics = createRequestMetrics();
  const ended: Outcome[] = [];
  const requests = {
    end: (_: string, __: string, outcome?: Outcome) => {
      if (outcome !== undefined) ended.push(outcome);
      return true;
    },
  };
  const usage: TracedRequest[] = [];
  const process = createFinishedRequests({
    requests,
    metrics,
    hostOf: (_, address) => ({ "192.0.2.2:1": "mac-2" })[address],
    onUsage: (one) => void usage.push(one),
    log: quiet,
  });
  const ticket = encodeAssignment({ caller: "k", model: "apps/chat", host: "mac-1", waitedMs: 0 });
  const line = (status: number, more: object = {}) =>
    JSON.stringify({
      id: "1",
      ticket,
      status,
      received: 1,
      sent: 1,
      start: 0,
      duration: 10,
      firstByte: 5,
      usage: {},
      ...more,
    });
  process([line(200), line(404), line(429), line(503)]);
  const counted = (one: "duration" | "firstByte") =>
    metrics[one].get("apps/chat")?.histogram.counts.reduce((sum, count) => sum + count, 0);
  expect([counted("duration"), counted("firstByte")]).toEqual([4, 2]);
  // Each of these is one request, at the replica that answered.
  expect(usage.map(({ host }) => host)).toEqual(["mac-1", "mac-1", "mac-1", "mac-1"]);
  process([
    line(200, { attempts: 2, endpoint: "192.0.2.2:1" }),
    line(503, { attempts: 2, endpoint: "192.0.2.3:1" }),
  ]);
  expect(usage.slice(4).map(({ host }) => host)).toEqual(["mac-2", "mac-1"]);
  expect(ended.map(({ hasFailed }) => hasFailed)).toEqual([false, false, false, false, true, true]);
  expect([...metrics.secondTries.samples()].map(({ value }) => value)).toEqual([2]);
  // The time to load an unloaded model is not part of the latency.
  const woken = { caller: "k", model: "apps/woken", host: "mac-1", waitedMs: 60_000, hasWoken: true };
  process([line(200, { ticket: encodeAssignment(woken), firstByte: 60_200 })]);
  expect(metrics.firstByte.get("apps/woken")?.histogram.sum).toBeCloseTo(0.2);
});
