/** What the end of a run is taken for: by its exit and its log, by whether it had served, and by how short memory was. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { classifyExit } from "../../../src/engines/llama-server/exit.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Level } from "../../../src/memory/governor/types.ts";
import type { Desired } from "../../../src/replica/observed.ts";
import { planReplica } from "../../../src/replica/plan.ts";
import { defaultTimings } from "../../../src/replica/timings.ts";
import type { ExitRecord } from "../../process/engine-process.ts";
import { silentLog } from "../../store/fixtures/store.ts";
import { openState } from "../adopt.ts";
import type { RunnerContext } from "../context.ts";
import type { EngineFile } from "../files/engine-record.ts";
import { observe } from "../observe.ts";
import { governed } from "../pressure.ts";
import { type ReplicaState, setFile } from "../state.ts";
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
  readonly level?: Level;
}

/** One run that has ended, written down. */
async function ended({ exit, logTail = "", wasReady, level }: Ending) {
  const context = {
    ports: {
      stateDir,
      clock: { ...systemClock, nowMs: () => MOMENT.wallMs, monotonicMs: () => MOMENT.monotonicMs },
      memoryLevel: () => level,
      memoryBudget: () => 1,
      address: () => "192.0.2.1",
      endpoints: { state: () => "withdrawn" },
    },
    ...{ log: silentLog, timings: defaultTimings, states: new Map(), moment: () => MOMENT, random: () => 0 },
    admission: { keepPort: () => {}, othersBytes: () => 0 },
    runtimes: {
      driver: () => ({ classifyExit }),
      state: () => ({ at: "present", version: "1", checkedAt: MOMENT.monotonicMs }),
    },
    ...{ signal: new AbortController().signal, wasListed: () => true, agentEnds: () => undefined },
  } as unknown as RunnerContext;
  const state = openState("u1", context);
  const file = { runId: "r1", runtime: "llamacpp", startedAtMs: MOMENT.wallMs - 9_000, port: 21_000 };
  const readyAtMs = wasReady ? { readyAtMs: MOMENT.wallMs - 5_000 } : {};
  setFile(state, { ...file, ...readyAtMs } as EngineFile, MOMENT);
  const process = { state: () => ({ at: "gone", exit }), logTail: async () => logTail };
  state.process = process as unknown as NonNullable<ReplicaState["process"]>;
  await recordExit(state, context);
  state.process = undefined;
  setFile(state, undefined, MOMENT);
  const seen = await observe(state, context);
  const plan = planReplica(WANTED, seen, MOMENT.monotonicMs, defaultTimings);
  return { plan, history: state.history, killedAt: governed(context).killedAt };
}

const CRASHES: readonly ExitRecord[] = [{ signal: "SIGSEGV" }, { code: 1 }];

test.each(CRASHES)(
  "a run that was Ready and ends with %o is tried again, whatever it logged",
  async (exit) => {
    const { plan, history } = await ended({ exit, logTail: ECHO, wasReady: true });
    expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineCrashed" });
    expect(history.hopelessWith).toBeUndefined();
  },
);

test("the same log of a run that never was Ready tells of its model, for good", async () => {
  const { history } = await ended({ exit: { code: 1 }, logTail: ECHO, wasReady: false });
  expect(history).toMatchObject({ hopelessWith: "1", lastExit: { reason: "EngineBadModel" } });
});

test("a run that was Ready may end for want of memory by its own word", async () => {
  const logTail = "ggml_abort: out of memory\n";
  const { plan } = await ended({ exit: { signal: "SIGABRT" }, logTail, wasReady: true });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineOutOfMemory" });
});

const SHORT: readonly (readonly [Level, string])[] = [
  ["Warning", "memory was short"],
  ["Critical", "memory was critical"],
];

test.each(SHORT)("a SIGKILL from outside while memory is at %s is the system's", async (level, words) => {
  const { plan, history, killedAt } = await ended({ exit: { signal: "SIGKILL" }, wasReady: true, level });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineOutOfMemory" });
  expect(plan.message).toContain(words);
  expect(plan.message).toContain("lower contextSize or parallelSlots");
  expect(history.lastExit).toMatchObject({ signal: "SIGKILL", killedByUs: false });
  expect(killedAt).toBe(MOMENT.monotonicMs);
});

const ENOUGH: readonly (Level | undefined)[] = ["Normal", undefined];

test.each(ENOUGH)("a SIGKILL from outside while memory is at %s is somebody's", async (level) => {
  const ending = { exit: { signal: "SIGKILL" }, wasReady: true };
  const { plan } = await ended(level === undefined ? ending : { ...ending, level });
  expect(plan).toMatchObject({ phase: "Backoff", reason: "EngineKilled" });
});
