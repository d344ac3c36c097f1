import { expect, test } from "vitest";
import type { InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { statusEvents } from "./tell.ts";

function statusWith(message: string | undefined): InferenceServiceStatus {
  const status = message === undefined ? "False" : "True";
  const reason = message === undefined ? "NoWarnings" : "ContextBeyondTraining";
  const warnings = { type: "Warnings", status, reason, message: message ?? "" } as const;
  const conditions = [{ ...warnings, lastTransitionTime: "2026-01-01T00:00:00Z" }];
  return { phase: "Ready", reason: "InferenceReady", message: "", conditions };
}

test("a warning is an Event when it is new or another one, and not while it stays", () => {
  const event = (note: string) => [
    { type: "Warning", reason: "ContextBeyondTraining", action: "Reconcile", note },
  ];
  expect(statusEvents(statusWith(undefined), statusWith("too much"))).toEqual(event("too much"));
  expect(statusEvents(statusWith("too much"), statusWith("more"))).toEqual(event("more"));
  expect(statusEvents(statusWith("too much"), statusWith("too much"))).toEqual([]);
  expect(statusEvents(statusWith("too much"), statusWith(undefined))).toEqual([]);
});
