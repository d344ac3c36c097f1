import { expect, test } from "vitest";
import { keepLines, type LogLine } from "../../fixtures/agent.ts";
import { createSayings } from "./sayings.ts";

test("a finding is said once, another one again, and its end once", () => {
  const lines: LogLine[] = [];
  const sayings = createSayings(keepLines(lines));
  sayings.over("status");
  for (let tries = 0; tries < 3; tries += 1) sayings.found("status", "timeout", { error: "timeout" });
  sayings.found("endpoint", "timeout", {});
  sayings.found("status", "forbidden", { error: "forbidden" });
  sayings.over("status");
  sayings.over("status");
  sayings.found("status", "timeout", { error: "timeout" });
  expect(lines.map(({ level, data, message }) => [level, data.error, message])).toEqual([
    ["warn", "timeout", "status not written; trying again"],
    ["warn", undefined, "endpoint not written; trying again"],
    ["warn", "forbidden", "status not written; trying again"],
    ["info", undefined, "status written again"],
    ["warn", "timeout", "status not written; trying again"],
  ]);
});
