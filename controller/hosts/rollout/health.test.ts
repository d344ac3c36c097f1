import { describe, expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import {
  type HealthHistory,
  LOADING_DEADLINE_MS,
  PROGRESS_DEADLINE_MS,
  readHealth,
  SETTLE_MS,
} from "./health.ts";

const EMPTY: HealthHistory = new Map();

function replica(status: object, isReachable = true): InferenceReplica {
  const conditions = [{ type: "HostReachable", status: isReachable ? "True" : "False" }];
  return {
    metadata: { name: "chat-0-aa", uid: "u1" },
    spec: { template: { hostName: "mac-1", model: { source: "hf://org/tiny" } } },
    status: { ...status, conditions },
  } as unknown as InferenceReplica;
}

/** Agents report no valid times here, so that the wall clock decides nothing. */
const momentAt = (monotonicMs: number) => ({ monotonicMs, wallMs: 0 });

/** The reading of a replica that had these statuses at these times. */
function readingOf(...seen: readonly (readonly [number, object])[]) {
  let history = EMPTY;
  let reading = readHealth(history, [], momentAt(0));
  for (const [now, status] of seen) {
    reading = readHealth(history, [replica(status)], momentAt(now));
    history = reading.history;
  }
  const { failing, unsettled, recheckAfterMs } = reading;
  return { failing: failing.get("chat-0-aa"), isUnsettled: unsettled.has("chat-0-aa"), recheckAfterMs };
}

describe("a replica fails", () => {
  test("a replica fails immediately if its agent reports Failed", () => {
    expect(readingOf([0, { phase: "Failed", reason: "EngineBadModel", message: "no tensors" }]).failing).toBe(
      "chat-0-aa on mac-1 is Failed (EngineBadModel: no tensors)",
    );
  });

  test("a replica fails after the second crash, until it is Ready", () => {
    const first = { phase: "Backoff", reason: "EngineCrashed", restarts: 1 };
    const second = { ...first, restarts: 2 };
    expect(readingOf([0, first]).failing).toBeUndefined();
    expect(readingOf([0, second]).failing).toBe("chat-0-aa on mac-1 exited 2 times (EngineCrashed)");
    const neverHealthy = { ...second, reason: "EngineNeverHealthy", message: "1 s were not enough" };
    expect(readingOf([0, neverHealthy]).failing).toContain(
      "exited 2 times (EngineNeverHealthy: 1 s were not enough)",
    );
    const restarting = { phase: "Starting", restarts: 2 };
    expect(readingOf([0, second], [1, restarting]).failing).toContain("exited 2 times");
    // A controller that begins in between sees it too, unless it has served before.
    expect(readingOf([0, restarting]).failing).toContain("exited 2 times");
    expect(readingOf([0, { ...restarting, readyAt: "t" }]).failing).toBeUndefined();
    const up = { phase: "Ready", restarts: 2, readyAt: "t" };
    expect(readingOf([0, second], [1, restarting], [2, up]).failing).toBeUndefined();
  });

  test("a replica fails without any progress for ten minutes", () => {
    const stuck = { phase: "Waiting", reason: "PortsExhausted" };
    expect(readingOf([0, stuck], [PROGRESS_DEADLINE_MS - 1, stuck])).toMatchObject({
      failing: undefined,
      recheckAfterMs: 1,
    });
    expect(readingOf([0, stuck], [PROGRESS_DEADLINE_MS, stuck]).failing).toBe(
      "chat-0-aa on mac-1 has been Waiting for 10 min without progress (PortsExhausted)",
    );
  });

  test("the time in which its host is unreachable does not make a replica fail", () => {
    const stuck = { phase: "Waiting", reason: "PortsExhausted" };
    const away = replica(stuck, false);
    const before = readHealth(EMPTY, [replica(stuck)], momentAt(0));
    const silent = readHealth(before.history, [away], momentAt(PROGRESS_DEADLINE_MS - 1));
    const long = readHealth(silent.history, [away], momentAt(10 * LOADING_DEADLINE_MS));
    expect([...long.failing]).toEqual([]);
    const back = 10 * LOADING_DEADLINE_MS + 1;
    const returned = readHealth(long.history, [replica(stuck)], momentAt(back));
    expect([...returned.failing]).toEqual([]);
    const late = readHealth(returned.history, [replica(stuck)], momentAt(back + PROGRESS_DEADLINE_MS));
    expect(late.failing.get("chat-0-aa")).toContain("without progress");
  });

  test("a replica fails without a report of its agent for ten minutes", () => {
    expect(readingOf([0, {}], [PROGRESS_DEADLINE_MS, {}]).failing).toContain(
      "has been without a status for 10 min",
    );
  });

  test.each(["Fetching", "Starting"])(
    "while %s only after an hour, counted from the last progress",
    (phase) => {
      const at = (bytes: number) => ({ phase, progress: { bytes } });
      const half = LOADING_DEADLINE_MS / 2;
      expect(readingOf([0, at(1)], [half, at(2)], [LOADING_DEADLINE_MS, at(2)]).failing).toBeUndefined();
      expect(readingOf([0, at(1)], [LOADING_DEADLINE_MS, at(1)]).failing).toContain(`${phase} for 60 min`);
    },
  );

  test("a replica does not fail because its host is silent", () => {
    const silent = readHealth(EMPTY, [replica({ phase: "Ready" }, false)], momentAt(0));
    const later = readHealth(
      silent.history,
      [replica({ phase: "Ready" }, false)],
      momentAt(10 * LOADING_DEADLINE_MS),
    );
    expect([...later.failing]).toEqual([]);
    expect(later.recheckAfterMs).toBeUndefined();
  });
});

test("a replica that crashed twice is settled after a minute of Ready", () => {
  const up = { phase: "Ready", restarts: 2, readyAt: "t" };
  expect(readingOf([0, up])).toEqual({ failing: undefined, isUnsettled: true, recheckAfterMs: SETTLE_MS });
  expect(readingOf([0, up], [SETTLE_MS, up])).toMatchObject({
    isUnsettled: false,
    recheckAfterMs: undefined,
  });
  const again = { ...up, readyAt: "later", restarts: 3 };
  expect(readingOf([0, up], [SETTLE_MS, again]).isUnsettled).toBe(true);
});

test("a removed replica is forgotten", () => {
  const { history } = readHealth(EMPTY, [replica({ phase: "Failed" })], momentAt(0));
  expect(readHealth(history, [], momentAt(1)).history.size).toBe(0);
});

test("a failing replica that is moved to another host stays failing until it is Ready; another slot starts with a clean record", () => {
  const named = (name: string, status: object) => {
    const one = replica(status);
    return { ...one, metadata: { ...one.metadata, name, uid: name } };
  };
  const failed = named("chat-0-aa", { phase: "Failed", reason: "EngineBadModel" });
  const { history } = readHealth(EMPTY, [failed], momentAt(0));
  const moved = named("chat-0-bb", { phase: "Fetching" });
  const other = named("chat-1-cc", { phase: "Fetching" });
  const both = readHealth(history, [failed, moved, other], momentAt(1));
  expect([...both.failing.keys()]).toEqual(["chat-0-aa", "chat-0-bb"]);
  const alone = readHealth(both.history, [moved, other], momentAt(2));
  expect([...alone.failing.keys()]).toEqual(["chat-0-bb"]);
  const up = readHealth(alone.history, [named("chat-0-bb", { phase: "Ready" }), other], momentAt(3));
  expect(up.failing.size).toBe(0);
});

test("a host without the file with which another replica serves does not make the revision fail", () => {
  const named = (name: string, source: string, status: object) => {
    const one = replica(status);
    const template = { ...one.spec.template, model: { ...one.spec.template.model, source } };
    return { ...one, metadata: { ...one.metadata, name, uid: name }, spec: { ...one.spec, template } };
  };
  const refused = { phase: "Failed", reason: "SourceNotAllowed" };
  const missing = named("chat-0-bb", "file:///a.gguf", refused);
  const serving = named("chat-0-aa", "file:///a.gguf", { phase: "Ready" });
  const first = readHealth(EMPTY, [serving, missing], momentAt(0));
  expect(first.failing.size).toBe(0);
  // Also after the other one has made room.
  expect(readHealth(first.history, [missing], momentAt(1)).failing.size).toBe(0);
  // A file that is nowhere is a fault of the revision.
  const typo = named("chat-0-bb", "file:///b.gguf", refused);
  expect(readHealth(EMPTY, [serving, typo], momentAt(0)).failing.size).toBe(1);
});
