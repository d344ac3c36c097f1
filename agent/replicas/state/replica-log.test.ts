import { expect, test } from "vitest";
import { keepLines, type LogLine } from "../../../test/fixtures/log-lines.ts";
import { createChangeMonitor, createReplicaLog } from "./replica-log.ts";

test("every line names the replica, as soon as its name is known", () => {
  const lines: LogLine[] = [];
  const known: { ref?: { namespace: string; name: string } } = {};
  const log = createReplicaLog(keepLines(lines), "u", () => known.ref);
  log.warn({ err: "x" }, "unreadable");
  known.ref = { namespace: "team", name: "chat-0-a" };
  log.info({ port: 1 }, "started");
  delete known.ref;
  log.info({}, "let go");
  log.child({ job: "fetch" }).warn({}, "failed");
  expect(lines.map(({ data }) => data)).toEqual([
    { uid: "u", err: "x" },
    { uid: "u", namespace: "team", name: "chat-0-a", port: 1 },
    { uid: "u", namespace: "team", name: "chat-0-a" },
    { uid: "u", namespace: "team", name: "chat-0-a", job: "fetch" },
  ]);
});

test("a repeated failure is logged once, a different one again, and the recovery once", () => {
  const lines: LogLine[] = [];
  const repeated = createChangeMonitor(keepLines(lines));
  repeated.resolved("write the status");
  for (let tries = 0; tries < 3; tries += 1)
    repeated.found("write the status", "timeout", { error: "timeout" });
  repeated.found("write the endpoint", "timeout", {});
  repeated.found("write the status", "forbidden", { error: "forbidden" });
  repeated.resolved("write the status");
  repeated.resolved("write the status");
  repeated.found("write the status", "timeout", { error: "timeout" });
  expect(lines.map(({ level, data, message }) => [level, data.error, message])).toEqual([
    ["warn", "timeout", "cannot write the status; retrying"],
    ["warn", undefined, "cannot write the endpoint; retrying"],
    ["warn", "forbidden", "cannot write the status; retrying"],
    ["info", undefined, "can write the status again"],
    ["warn", "timeout", "cannot write the status; retrying"],
  ]);
});
