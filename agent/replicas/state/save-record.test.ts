/** engine.json of a running engine is rewritten in order, beside the agent's other work. */

import fs, { existsSync, mkdtempSync, rmSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Instance } from "../../instances/instance.ts";
import type { RunnerContext } from "../context/context.ts";
import { persistStop } from "../end/act.ts";
import { forgetRun } from "../end/exits.ts";
import { type EngineFile, readEngineFile } from "./engine-record.ts";
import { newEngineRun, setFile } from "./run.ts";
import { saveRecord } from "./save-record.ts";
import type { ReplicaState } from "./state.ts";

const MOMENT = { wallMs: 1_000_000, monotonicMs: 5_000 };
const FILE: EngineFile = {
  version: 1,
  runId: "r",
  uid: "u",
  namespace: "n",
  name: "chat-0",
  service: "chat",
  runtime: "llamacpp",
  mode: "chat",
  revision: "1",
  address: "192.0.2.1",
  port: 21_000,
  claimBytes: 1,
  drainSeconds: 0,
  startedAtMs: 1,
};
const context = {
  moment: () => MOMENT,
  admission: { release: () => {} },
  counts: {},
} as unknown as RunnerContext;
let dir = "";
const { fsyncSync } = fs;
let blockedFor = 0;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "metalbridge-record-"));
  blockedFor = 0;
  fs.fsyncSync = (fd) => {
    blockedFor += 1;
    fsyncSync(fd);
  };
  syncBuiltinESMExports();
});

afterEach(() => {
  fs.fsyncSync = fsyncSync;
  syncBuiltinESMExports();
  rmSync(dir, { recursive: true, force: true });
});

function running(): ReplicaState {
  const instance = { close: () => {} } as unknown as Instance;
  const log = { info: () => {} };
  const engine = newEngineRun(instance, FILE, undefined, MOMENT);
  return { uid: "u", dir, log, engine, recordWritten: Promise.resolve() } as unknown as ReplicaState;
}

function change(state: ReplicaState, claimBytes: number): Promise<void> {
  setFile(state, { claimBytes }, MOMENT);
  return saveRecord(state);
}

test("a stop is on disk when its step ends, and a slow disk blocks no other work", async () => {
  const state = running();
  const stop = { why: "drained", startedAt: 5_000, deadlineAt: 9_000 } as const;
  await persistStop(state, context, stop);
  expect(readEngineFile(dir)).toMatchObject({ stop: { why: "drained" } });
  expect(blockedFor).toBe(0);
});

test("the file always ends with the newest of concurrent changes, and each caller finds its change there", async () => {
  const state = running();
  const written = Array.from({ length: 20 }, async (_, index) => {
    await change(state, index);
    const file = readEngineFile(dir);
    expect(typeof file === "object" && file.claimBytes).toBeGreaterThanOrEqual(index);
  });
  await Promise.all(written);
  expect(readEngineFile(dir)).toMatchObject({ claimBytes: 19 });
});

test("a record that is being written when its run ends does not reappear", async () => {
  const state = running();
  const late = [change(state, 1), change(state, 2)];
  await forgetRun(state, context);
  await Promise.all([...late, saveRecord(state)]);
  expect(existsSync(join(dir, "engine.json"))).toBe(false);
});

test("a disk that refuses a write is reported to its step, and the next write succeeds", async () => {
  const state = running();
  rmSync(dir, { recursive: true });
  await expect(change(state, 1)).rejects.toThrow("ENOENT");
  fs.mkdirSync(dir);
  await change(state, 2);
  expect(readEngineFile(dir)).toMatchObject({ claimBytes: 2 });
});
