import { expect, test } from "vitest";
import { keepLines, type LogLine } from "../../fixtures/agent.ts";
import { createRepeated } from "./replica-log.ts";

test("a finding that repeats is logged once, another one again, and its end once", () => {
  const lines: LogLine[] = [];
  const repeated = createRepeated(keepLines(lines));
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
