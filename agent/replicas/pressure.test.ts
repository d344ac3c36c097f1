/** Evictions and kills as the pressure governor counts them: on the monotonic clock, whatever the wall clock is set to. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { Instance } from "../instances/instance.ts";
import { silentLog } from "../store/fixtures/store.ts";
import { createMemoryAdmission } from "./context/admission.ts";
import type { RunnerContext } from "./context/context.ts";
import type { MachineMemory } from "./context/ports.ts";
import type { HistoryExit } from "./evidence/observed.ts";
import { defaultTimings } from "./evidence/timings.ts";
import { openState } from "./prepare/adopt.ts";
import { availableFor, clearEviction, evict, governedEngines } from "./pressure.ts";
import type { EngineFile } from "./state/engine-record.ts";
import { writeHistory } from "./state/history.ts";
import { beginRun, newEngineRun } from "./state/run.ts";
import { setDesiredObject } from "./state/state.ts";

const HOUR = 3_600_000;
const UID = "u1";
let stateDir = "";
let wallMs = 0;
let monotonicMs = 0;

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "metalbridge-pressure-"));
  wallMs = Date.parse("2026-05-01T12:00:00Z");
  monotonicMs = 50_000;
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

/** A fresh agent's view: one replica that wants to run and has no process. */
function openAgent(memory?: MachineMemory) {
  const clock = { ...systemClock, nowMs: () => wallMs, monotonicMs: () => monotonicMs };
  const address = (): string => "192.0.2.1";
  const context = {
    ports: { stateDir, clock, memory },
    log: silentLog,
    timings: defaultTimings,
    admission: createMemoryAdmission({
      budget: () => 1,
      available: () => undefined,
      address,
      portRange: [21_000, 21_001],
      onFreed: () => {},
    }),
    states: new Map(),
    signal: new AbortController().signal,
    enqueue: () => {},
    moment: () => ({ wallMs, monotonicMs }),
  } as unknown as RunnerContext;
  const state = openState(UID, context);
  const replica = { metadata: { name: "chat-0", uid: UID }, spec: { memory: { claimBytes: 100 } } };
  setDesiredObject(state, "current", replica as InferenceReplica, context.moment());
  return { state, context };
}

function pass(ms: number): void {
  wallMs += ms;
  monotonicMs += ms;
}

test("the time since an eviction does not depend on the wall clock", () => {
  const { state, context } = openAgent();
  evict(state, context, "evict", "memory is critical");
  pass(60_000);
  for (const stepMs of [-24 * HOUR, 48 * HOUR]) {
    wallMs += stepMs;
    const [engine] = governedEngines(context).engines;
    expect(engine).toMatchObject({ standing: { at: "evicted", since: monotonicMs - 60_000 }, evictions: 1 });
  }
  clearEviction(state);
  expect(governedEngines(context).engines).toEqual([]);
});

test("a new agent continues the time since an eviction, or restarts it if the wall clock was set back", () => {
  const first = openAgent();
  evict(first.state, first.context, "evict", "memory is critical");
  pass(60_000);
  monotonicMs = 1_000;
  const second = openAgent();
  expect(governedEngines(second.context).engines).toMatchObject([
    { standing: { at: "evicted", since: 1_000 - 60_000 }, evictions: 1 },
  ]);
  wallMs -= 24 * HOUR;
  const third = openAgent();
  pass(60_000);
  expect(governedEngines(third.context).engines).toMatchObject([
    { standing: { since: 1_000 }, evictions: 1 },
  ]);
});

test("evictions are forgotten after six hours of monotonic time", () => {
  const { state, context } = openAgent();
  evict(state, context, "evict", "memory is critical");
  wallMs += 7 * HOUR;
  expect(governedEngines(context).engines[0]?.evictions).toBe(1);
  wallMs -= 24 * HOUR;
  pass(6 * HOUR);
  expect(governedEngines(context).engines[0]?.evictions).toBe(0);
});

test("the time since a kill by the system does not depend on the wall clock", () => {
  const at = new Date(wallMs - 30_000).toISOString();
  const lastExit = {
    signal: "SIGKILL",
    killedByUs: false,
    reason: "EngineKilled",
    at,
    message: "killed",
    logTail: "",
  } satisfies HistoryExit;
  const { state } = openAgent();
  writeHistory(state.dir, { ...state.past.history, lastExit });
  const { context } = openAgent();
  pass(10_000);
  for (const stepMs of [-24 * HOUR, 48 * HOUR]) {
    wallMs += stepMs;
    expect(governedEngines(context).killedAt).toBe(monotonicMs - 40_000);
  }
});

test("an engine that was not ready when the reading began still counts with its claim", () => {
  let readAt = monotonicMs;
  const { state, context } = openAgent({ latest: () => ({ at: readAt, availableBytes: 500 }) });
  const other = openState("u2", context);
  context.states.set("u1", state);
  context.states.set("u2", other);
  context.admission.adopt("u2", { claimBytes: 450, port: 21_001 });
  pass(500);
  const file = { claimBytes: 450, readyAtMs: wallMs } as EngineFile;
  beginRun(other, newEngineRun({} as Instance, file, undefined, context.moment()), false);
  expect(availableFor(UID, context)).toBe(50);
  pass(2_000);
  readAt = monotonicMs;
  expect(availableFor(UID, context)).toBe(500);
});
