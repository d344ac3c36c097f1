import { expect, test } from "vitest";
import { at, recordingOf } from "../testing/recording.ts";
import { explain } from "./explain.ts";

const violation = { invariant: "requests", at: 90_000, message: "request 7 was lost", about: ["steady"] };

test("names the faults that were in force, however long ago they began, and what happened last", () => {
  const recording = recordingOf(
    at(1, "fault", { id: 1, kind: "lease-expiry", target: "mac-b" }),
    at(2, "fault", { id: 2, kind: "network-cut", target: "mac-c" }),
    at(3, "fault", { id: 2, kind: "network-cut", target: "mac-c", phase: "healed" }),
    at(4, "fault", { id: 3, kind: "engine-kill", target: "mac-c" }),
    ...Array.from({ length: 20 }, (_, second) => at(60 + second, "load", { isOn: second % 2 === 0 })),
    at(95, "fault", { id: 1, kind: "lease-expiry", target: "mac-b", phase: "healed" }),
  );
  const lines = explain(violation, recording).split("\n");
  expect(lines[0]).toBe("VIOLATED requests at +01:30.0: request 7 was lost");
  expect(lines[1]).toBe("    +00:01.0  >> lease-expiry #1 mac-b");
  expect(lines[2]).toContain("load on steady");
  expect(lines).toHaveLength(2 + 15);
});
