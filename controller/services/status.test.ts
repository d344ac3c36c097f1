import { expect, test } from "vitest";
import type { InferenceServiceStatus } from "../../src/api/inference-service/index.ts";
import { knownStatus, statusEvents } from "./status.ts";

function statusWith(message: string | undefined): InferenceServiceStatus {
  const status = message === undefined ? "False" : "True";
  const reason = message === undefined ? "NoWarnings" : "ContextBeyondTraining";
  const warnings = { type: "Warnings", status, reason, message: message ?? "" } as const;
  const conditions = [{ ...warnings, lastTransitionTime: "2026-01-01T00:00:00Z" }];
  return { phase: "Ready", reason: "InferenceReady", message: "", conditions };
}

const at = "2026-01-01T00:00:00Z";

/** As `<phase> <reason> [degraded]`. */
function statusAt(words: string, more: Partial<InferenceServiceStatus> = {}): InferenceServiceStatus {
  const [phase, reason, degraded] = words.split(" ");
  const status = degraded === undefined ? "False" : "True";
  const conditions = [
    { type: "Degraded", status, reason: "x", message: "", lastTransitionTime: at } as const,
    ...(more.conditions ?? []),
  ];
  return { phase: phase as never, reason, message: "", ...more, conditions };
}

test("a service that starts gets an Event when it serves, and none for the steps of its replica", () => {
  const steps = [
    "Creating ReplicasNotReady",
    "Creating SourceFetching",
    "Creating EngineStarting",
    "Creating MemoryUnknown",
    "Ready InferenceReady",
  ].map((words) => statusAt(words));
  const events = steps.flatMap((status, index) => statusEvents(steps[index - 1], status));
  expect(events).toEqual([{ type: "Normal", reason: "InferenceReady", action: "Reconcile", note: "" }]);
});

test("a pass that has not seen the last status repeats no Event, even if it has seen one before", () => {
  const [progressing, crashing] = ["Progressing ReplicasNotReady", "Degraded PodCrashing degraded"].map(
    (words) => statusAt(words),
  );
  const seen = { metadata: { name: "chat", resourceVersion: "7" }, status: progressing };
  const restarted = statusAt("Degraded PodCrashing degraded", { message: "restarted 2 times" });
  const written = crashing && { version: "9", status: crashing };
  expect(statusEvents(knownStatus(seen, undefined), restarted)).toHaveLength(1);
  const newerBy = (resourceVersion: string) => ({ ...seen, metadata: { ...seen.metadata, resourceVersion } });
  for (const stale of [seen, newerBy("8")])
    expect(statusEvents(knownStatus(stale, written), restarted)).toEqual([]);
  const newer = newerBy("10");
  expect(statusEvents(knownStatus(newer, written), restarted)).toHaveLength(1);
});

test.each([
  ["Pending ModelNotFound degraded", "Warning"],
  ["Pending ModelSizeUnknown degraded", "Warning"],
  ["Pending ModelNotReady", "Normal"],
  ["Degraded HostUnreachable degraded", "Warning"],
  ["WaitingForCapacity NoHostWithMemory", "Warning"],
  ["Suspended Suspended", "Normal"],
])("the Event of %s is of type %s", (words, type) => {
  expect(statusEvents(undefined, statusAt(words)).map((event) => event.type)).toEqual([type]);
});

test("a rollout gets an Event when it begins and when it is complete, and a restart gets neither", () => {
  const rollout = (reason: string) => ({
    conditions: [
      { type: "Progressing", status: "True", reason, message: "", lastTransitionTime: at } as const,
    ],
  });
  const before = statusAt("Ready InferenceReady", { currentRevision: "a", ...rollout("RolloutComplete") });
  const during = statusAt("Progressing NewRevisionRollingOut", {
    currentRevision: "a",
    ...rollout("NewRevisionRollingOut"),
  });
  const after = statusAt("Ready InferenceReady", { currentRevision: "b", ...rollout("RolloutComplete") });
  const events = [...statusEvents(before, during), ...statusEvents(during, after)];
  expect(events.map(({ reason }) => reason)).toEqual([
    "NewRevisionRollingOut",
    "InferenceReady",
    "RolloutComplete",
  ]);
  const down = statusAt("Degraded EngineStarting degraded", {
    currentRevision: "b",
    ...rollout("EngineStarting"),
  });
  expect(statusEvents(down, after).map(({ reason }) => reason)).toEqual(["InferenceReady"]);
});

test("fields that have no effect are a Warning Event once, and again when they change", () => {
  const ignoring = (message: string) =>
    statusAt("Ready InferenceReady", {
      conditions: [
        { type: "SpecHonored", status: "False", reason: "FieldsNotHonored", message, lastTransitionTime: at },
      ],
    });
  const events = (was: string, is: string) =>
    statusEvents(ignoring(was), ignoring(is)).map(({ type, reason, note }) => `${type} ${reason} ${note}`);
  expect(events("spec.slo", "spec.slo, spec.env")).toEqual(["Warning FieldsNotHonored spec.slo, spec.env"]);
  expect(events("spec.slo", "spec.slo")).toEqual([]);
});

test("a warning gets an Event when it is new or changes, and not while it stays", () => {
  const event = (note: string) => [
    { type: "Warning", reason: "ContextBeyondTraining", action: "Reconcile", note },
  ];
  expect(statusEvents(statusWith(undefined), statusWith("too much"))).toEqual(event("too much"));
  expect(statusEvents(statusWith("too much"), statusWith("more"))).toEqual(event("more"));
  expect(statusEvents(statusWith("too much"), statusWith("too much"))).toEqual([]);
  expect(statusEvents(statusWith("too much"), statusWith(undefined))).toEqual([]);
});
