/** What the end of a run is taken for: by its exit and its log, by whether it had served, and by how short memory was. */

import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { classifyExit } from "../../../src/engines/llamacpp/exit.ts";
import { ownLines } from "../../../src/engines/llamacpp/own-lines.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { ExitRecord, Instance } from "../../instances/instance.ts";
import type { PressureLevel } from "../../pressure/governor/types.ts";
import { silentLog } from "../../store/fixtures/store.ts";
import type { RunnerContext } from "../context/context.ts";
import type { Desired } from "../evidence/observed.ts";
import { defaultTimings, type Timings } from "../evidence/timings.ts";
import { observeReplica } from "../observe.ts";
import { planReplica } from "../plan.ts";
import { openState } from "../prepare/adopt.ts";
import { governedEngines } from "../pressure.ts";
import { refreshFromDisk } from "../refresh.ts";
import type { EngineFile } from "../state/engine-record.ts";
import { saveHistory } from "../state/history.ts";
import { beginRun, endRun, newEngineRun } from "../state/run.ts";
import type { ReplicaState } from "../state/state.ts";
import { recordExit } from "./exits.ts";

const MOMENT = { wallMs: Date.parse("2026-05-01T12:00:00Z"), monotonicMs: 50_000 };
const ECHO = `srv log_server_r: request: {"error":{"message":"last read: 'failed to read'"}}\n`;
const WANTED: Desired = {
  ...{ revision: "1", runtime: "llamacpp", claimBytes: 1, weightsBytes: 1, drainSeconds: 0 },
  ...{ isDeleting: false, hasFinalizer: true },
};
let stateDir = "";

beforeEach(() => {
  stateDir = mkdtempSync(join(tmpdir(), "metalbridge-exits-"));
});

afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

interface Ending {
  readonly exit: ExitRecord;
  readonly logTail?: string;
  readonly wasReady: boolean;
  readonly readyForMs?: number;
  readonly level?: PressureLevel;
  /** Unless given, the first restart waits, so that what is said meanwhile is seen. */
  readonly timings?: Timings;
  /** While the log is read. */
  readonly meanwhile?: (state: ReplicaState) => void;
}

const WAITING: Timings = { ...defaultTimings, firstRestartMs: 1_000 };

/** Records the exit of one run. */
async function ended(ending: Ending) {
  const { exit, logTail = "", wasReady, readyForMs = 5_000, level, timings = WAITING } = ending;
  const context = {
    ports: {
      stateDir,
      clock: { ...systemClock, nowMs: () => MOMENT.wallMs, monotonicMs: () => MOMENT.monotonicMs },
      memoryLevel: () => level,
      memoryBudget: () => 1,
    },
    address: () => "192.0.2.1",
    cluster: () => ({ endpoints: { state: () => "withdrawn" } }),
    ...{ log: silentLog, timings, states: new Map(), moment: () => MOMENT, random: () => 0 },
    admission: { keepPort: () => {}, othersBytes: () => 0 },
    runtimes: {
      driver: () => ({ classifyExit, ownLines }),
      state: () => ({ at: "present", version: "1", checkedAt: MOMENT.monotonicMs }),
    },
    ...{ signal: new AbortController().signal, wasListed: () => true, agentStop: () => undefined },
  } as unknown as RunnerContext;
  const state = openState("u1", context);
  const file = { runId: randomUUID(), runtime: "llamacpp", startedAtMs: MOMENT.wallMs - 9_000, port: 21_000 };
  const readyAtMs = wasReady ? { readyAtMs: MOMENT.wallMs - readyForMs } : {};
  const readLog = async () => {
    ending.meanwhile?.(state);
    return logTail;
  };
  const instance = { state: () => ({ at: "gone", exit }), logTail: readLog };
  const record = { ...file, ...readyAtMs } as EngineFile;
  beginRun(state, newEngineRun(instance as unknown as Instance, record, undefined, MOMENT), false);
  await recordExit(state, context);
  endRun(state);
  await refreshFromDisk(state, context);
  const seen = observeReplica(state, context);
  const plan = planReplica(WANTED, seen, MOMENT.monotonicMs, timings);
  return { plan, history: state.past.history, killedAt: governedEngines(context).killedAt };
}

test("an eviction that is noted while the log is read is kept", async () => {
  const eviction = { atMs: MOMENT.wallMs, how: "evict", because: "critical memory pressure" } as const;
  const meanwhile = (state: ReplicaState) =>
    saveHistory(state, { ...state.past.history, eviction, evictedAtMs: [MOMENT.wallMs] });
  const { history } = await ended({ exit: { signal: "SIGKILL" }, wasReady: true, meanwhile });
  expect(history).toMatchObject({ eviction, evictedAtMs: [MOMENT.wallMs], restarts: 1 });
});

const CRASHES: readonly ExitRecord[] = [{ signal: "SIGSEGV" }, { code: 1 }];

test.each(CRASHES)("a run that was Ready and exits with %o is retried, whatever it logged", async (exit) => {
  const { plan, history } = await ended({ exit, logTail: ECHO, wasReady: true });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineCrashed" });
  expect(history.terminal).toBeUndefined();
});

test("the same log of a run that never was Ready is a terminal verdict on its model", async () => {
  const { history } = await ended({ exit: { code: 1 }, logTail: ECHO, wasReady: false });
  expect(history).toMatchObject({
    terminal: { runtimeVersion: "1" },
    lastExit: { reason: "EngineBadModel" },
  });
});

test("a shared daemon's reason for refusing a model is recorded, and its log is not", async () => {
  const because = { code: "EngineBadModel", message: "unable to load model" } as const;
  const { plan, history } = await ended({ exit: { because }, logTail: "out of memory\n", wasReady: false });
  expect(plan).toMatchObject({ reason: "EngineBadModel" });
  expect(history).toMatchObject({ terminal: { runtimeVersion: "1" } });
  expect(history.lastExit).not.toHaveProperty("because");
});

test("a run that was Ready may report that it ran out of memory", async () => {
  const logTail = "ggml_abort: out of memory\n";
  const { plan } = await ended({ exit: { signal: "SIGABRT" }, logTail, wasReady: true });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineOutOfMemory" });
});

test("the recorded log of a run that was Ready does not contain clients' text", async () => {
  const logTail = `0.01.2.3 W srv    operator(): got exception: {"message":"last read: 'sesame'"}
parse: error parsing grammar: unexpected end of input

sesame ::= [
0.01.2.4 E failed to parse grammar
`;
  const { plan, history } = await ended({ exit: { signal: "SIGSEGV" }, logTail, wasReady: true });
  expect(JSON.stringify([plan, history])).not.toContain("sesame");
  expect(history.lastExit?.logTail).toBe(
    "0.01.2.3 W srv    operator(): …\n0.01.2.4 E failed to parse grammar",
  );
  expect(plan.message).toContain("failed to parse grammar");
});

const SHORT: readonly (readonly [PressureLevel, string])[] = [
  ["Warning", "memory was short"],
  ["Critical", "memory was critical"],
];

test.each(SHORT)("attributes an external SIGKILL at memory level %s to the OS", async (level, words) => {
  const { plan, history, killedAt } = await ended({ exit: { signal: "SIGKILL" }, wasReady: true, level });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineOutOfMemory" });
  expect(plan.message).toContain(words);
  expect(plan.message).toContain("lower contextSize, parallelSlots or promptCacheMiB");
  expect(history.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
  expect(killedAt).toBe(MOMENT.monotonicMs);
});

const ENOUGH: readonly (PressureLevel | undefined)[] = ["Normal", undefined];

test.each(ENOUGH)("a SIGKILL from outside while memory is at %s is reported as a user's", async (level) => {
  const ending = { exit: { signal: "SIGKILL" }, wasReady: true };
  const { plan } = await ended(level === undefined ? ending : { ...ending, level });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineKilled" });
});

const AGES: readonly (readonly [string, Pick<Ending, "wasReady" | "readyForMs">])[] = [
  ["was never Ready", { wasReady: false }],
  ["was Ready for five seconds", { wasReady: true }],
  ["was Ready for ten minutes", { wasReady: true, readyForMs: 600_000 }],
];

test.each(AGES)("an engine that %s restarts at once after its first crash", async (_, age) => {
  const { plan, history } = await ended({ exit: { code: 1 }, ...age, timings: defaultTimings });
  expect(plan.phase).not.toBe("Backoff");
  expect(history).toMatchObject({ restarts: 1, crashesInARow: 1 });
  expect(history.transitions).toMatchObject([{ phase: "Backoff", reason: "EngineCrashed" }]);
});

test("further crashes are held back for longer each time, until one comes after ten minutes", async () => {
  const young: Ending = { exit: { code: 1 }, wasReady: true, timings: defaultTimings };
  const waits: (number | undefined)[] = [];
  for (const ending of [young, young, young, young, { ...young, readyForMs: 600_000 }, young]) {
    const { plan } = await ended(ending);
    waits.push(plan.nextTryAt === undefined ? undefined : plan.nextTryAt - MOMENT.monotonicMs);
  }
  expect(waits).toEqual([undefined, 1_000, 2_000, 4_000, undefined, 1_000]);
});
