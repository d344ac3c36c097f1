import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { removeRun } from "../../../src/supervise/run-directory.ts";
import type { Instance } from "../../instances/instance.ts";
import { type EngineFile, readEngineFile, recordOf, storedStopOf, writeEngineFile } from "./engine-record.ts";
import { readReplicaHistory, writeHistory } from "./history.ts";
import { NEVER_ANNOUNCED, newEngineRun, setFile } from "./run.ts";

const file: EngineFile = {
  version: 1,
  runId: "run-1",
  uid: "u1",
  namespace: "team",
  name: "chat-0",
  service: "chat",
  runtime: "llamacpp",
  mode: "chat",
  revision: "r1",
  address: "192.0.2.1",
  port: 21_000,
  claimBytes: 100,
  drainSeconds: 30,
  argv: ["llama-server"],
  startedAtMs: 1_000_000,
};
let folder = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "metalbridge-record-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a record is read back as written; half a record and a later version are unreadable", async () => {
  expect(readEngineFile(folder)).toBeUndefined();
  await writeEngineFile(folder, file);
  expect(readEngineFile(folder)).toEqual(file);
  writeFileSync(join(folder, "engine.json"), JSON.stringify({ ...file, version: 2 }));
  expect(readEngineFile(folder)).toBe("unreadable");
  removeRun(folder);
  expect(readEngineFile(folder)).toBeUndefined();
});

test("a record of the first version is read, and what its engine's instance added is kept", () => {
  const { version, ...first } = file;
  writeFileSync(join(folder, "engine.json"), JSON.stringify({ version, ...first, later: "unknown here" }));
  expect(readEngineFile(folder)).toEqual({ ...file, later: "unknown here" });
});

test("a history without optional fields is read, and one that cannot be read counts as empty", () => {
  const first = { version: 1, restarts: 3, crashesInARow: 2, port: 21_004 };
  writeFileSync(join(folder, "history.json"), JSON.stringify(first));
  expect(readReplicaHistory(folder)).toMatchObject({ ...first, exits: {}, transitions: [] });
  for (const text of ["{", "[]", '{"version":2}', '{"version":1,"restarts":-1}']) {
    writeFileSync(join(folder, "history.json"), text);
    expect(readReplicaHistory(folder)).toMatchObject({ restarts: 0, crashesInARow: 0 });
  }
});

test("a terminal failure survives the agent, with weights or without", () => {
  const lastExit = { killedByUs: false, reason: "EngineBadModel", message: "cut off", at: "", logTail: "" };
  const common = { version: 1, restarts: 1, crashesInARow: 1, lastExit };
  for (const terminal of [{ runtimeVersion: "11669" }, { runtimeVersion: "11669", weights: "cut off" }]) {
    writeFileSync(join(folder, "history.json"), JSON.stringify({ ...common, terminal }));
    const read = readReplicaHistory(folder);
    expect(read).toMatchObject({ ...common, terminal });
    writeHistory(folder, read);
    expect(readReplicaHistory(folder)).toEqual(read);
  }
});

test("times are placed on the clock of this process, and never into its future", () => {
  const later = { wallMs: 1_060_000, monotonicMs: 500 };
  expect(recordOf(file, later).startedAt).toBe(-59_500);
  const clockWentBack = { wallMs: 900_000, monotonicMs: 500 };
  expect(recordOf(file, clockWentBack).startedAt).toBe(500);
});

test("a wall clock that is set while the agent runs changes no deadline", () => {
  const moment = { wallMs: 1_000_000, monotonicMs: 100 };
  const state = { engine: newEngineRun({} as Instance, file, undefined, moment), slice: NEVER_ANNOUNCED };
  const dayLater = 1_000_000 + 86_400_000;
  setFile(state, { readyAtMs: dayLater + 50 }, { wallMs: dayLater + 50, monotonicMs: 150 });
  expect(state.engine.record).toMatchObject({ startedAt: 100, readyAt: 150 });
  setFile(state, { contextPerSlot: 1 }, { wallMs: 0, monotonicMs: 200 });
  expect(state.engine.record).toMatchObject({ startedAt: 100, readyAt: 150 });
});

test("the reason of a forced stop survives the agent", async () => {
  const stop = { why: "degraded", startedAtMs: 5, deadlineMs: 5, because: "a real request failed" } as const;
  await writeEngineFile(folder, { ...file, stop });
  const found = readEngineFile(folder);
  if (found === undefined || found === "unreadable") throw new Error("not read");
  expect(recordOf(found, { wallMs: 10, monotonicMs: 1_000 }).stop).toMatchObject({
    why: "degraded",
    because: "a real request failed",
  });
});

test("the times of a stop survive the agent, each at the same distance from its start", async () => {
  const stop = {
    why: "drained",
    startedAt: 500,
    deadlineAt: 30_500,
    latestAt: 20_500,
    withdrawnAt: 700,
  } as const;
  await writeEngineFile(folder, {
    ...file,
    stop: storedStopOf(stop, { wallMs: 1_000_000, monotonicMs: 1_000 }),
  });
  const found = readEngineFile(folder);
  if (found === undefined || found === "unreadable") throw new Error("not read");
  expect(recordOf(found, { wallMs: 1_010_000, monotonicMs: 0 }).stop).toEqual({
    why: "drained",
    startedAt: -10_500,
    deadlineAt: 19_500,
    latestAt: 9_500,
    withdrawnAt: -10_300,
  });
  const clockWentBack = { wallMs: 900_000, monotonicMs: 50 };
  expect(recordOf(found, clockWentBack).stop).toMatchObject({ startedAt: 50, withdrawnAt: 50 });
});
