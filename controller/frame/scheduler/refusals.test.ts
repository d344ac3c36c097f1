import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { REFUSAL_MS } from "../../../src/capacity/placement/filters.ts";
import { MEMORY_WAIT_MS, NO_REFUSALS, readRefusals } from "./refusals.ts";

function replica(phase: string, reason?: string, source = "hf://org/model"): InferenceReplica {
  const template = { hostName: "mac-1", model: { source } };
  return {
    metadata: { name: "chat-0-a", uid: "u1" },
    spec: { template },
    status: { phase, reason },
  } as unknown as InferenceReplica;
}

const waiting = [replica("Waiting", "InsufficientMemory")];

test("a replica that waits for memory is displaced after 30 s, and its host remembered for ten minutes", () => {
  const first = readRefusals(NO_REFUSALS, waiting, 1_000);
  expect(first.displaced.size).toBe(0);
  expect(first.recheckAfterMs).toBe(MEMORY_WAIT_MS);

  const later = readRefusals(first.history, waiting, 1_000 + MEMORY_WAIT_MS);
  expect([...later.displaced]).toEqual(["chat-0-a"]);
  expect(later.history.refusals).toEqual([
    { host: "mac-1", atMs: 1_000 + MEMORY_WAIT_MS, message: "InsufficientMemory" },
  ]);

  const soon = readRefusals(later.history, [], 1_000 + MEMORY_WAIT_MS + REFUSAL_MS - 1);
  expect(soon.history.refusals).toHaveLength(1);
  expect(readRefusals(soon.history, [], 1_000 + MEMORY_WAIT_MS + REFUSAL_MS).history.refusals).toEqual([]);
});

test("a replica that recovers restarts its timer, and other reasons to wait are no refusal", () => {
  const first = readRefusals(NO_REFUSALS, waiting, 0);
  const recovered = readRefusals(first.history, [replica("Ready")], 20_000);
  expect(readRefusals(recovered.history, waiting, 31_000).displaced.size).toBe(0);
  expect(
    readRefusals(NO_REFUSALS, [replica("Waiting", "RuntimeNotInstalled")], 0).recheckAfterMs,
  ).toBeUndefined();
  expect(readRefusals(NO_REFUSALS, [replica("Evicted")], 0).recheckAfterMs).toBe(MEMORY_WAIT_MS);
});

test("a file that the host may not read or does not have is tried on other hosts", () => {
  const failed = [replica("Failed", "SourceNotAllowed", "file:///models/a.gguf")];
  const { history } = readRefusals(NO_REFUSALS, failed, 0);
  expect([...readRefusals(history, failed, MEMORY_WAIT_MS).displaced]).toEqual(["chat-0-a"]);
  const remote = [replica("Failed", "SourceNotAllowed")];
  expect(readRefusals(NO_REFUSALS, remote, 0).recheckAfterMs).toBeUndefined();
});

const isRefused = (one: InferenceReplica) =>
  readRefusals(NO_REFUSALS, [one], 0).recheckAfterMs === MEMORY_WAIT_MS;
const leaving = { deletionTimestamp: "2026-01-01T00:00:00Z" };

test.each<[string, InferenceReplica, boolean]>([
  ["one that waits for memory", replica("Waiting", "MemoryPressure"), true],
  ["one that starts after it", replica("Starting", "MemoryPressure"), false],
  ["one without a status", { ...replica("Waiting"), status: undefined }, false],
  [
    "one that is being deleted",
    { ...replica("Evicted"), metadata: { ...replica("Evicted").metadata, ...leaving } },
    false,
  ],
  ["one whose file is missing", replica("Failed", "SourceNotFound", "/models/a.gguf"), true],
  ["one that found it since", replica("Ready", "SourceNotFound", "/models/a.gguf"), false],
  ["one whose file has another fault", replica("Failed", "EngineBadModel", "/models/a.gguf"), false],
  ["one of a folder on the hub", replica("Failed", "SourceNotFound", "hf://org/model/"), false],
])("is refused: %s", (_, one, expected) => {
  expect(isRefused(one)).toBe(expected);
});

test("a host is stored once with its last refusal, and the earliest timer is the next check", () => {
  const on = (hostName: string, uid: string, reason?: string): InferenceReplica => {
    const one = replica("Evicted", reason);
    const template = { ...one.spec.template, hostName };
    return { ...one, metadata: { ...one.metadata, name: uid, uid }, spec: { ...one.spec, template } };
  };
  const began = { since: new Map([["a", 0]]), refusals: [] };
  const first = readRefusals(began, [on("mac-1", "a", "MemoryPressure")], MEMORY_WAIT_MS);
  const history = {
    ...first.history,
    since: new Map([
      ["b", 0],
      ["c", 5_000],
      ["d", 9_000],
    ]),
  };
  const all = [on("mac-2", "b"), on("mac-3", "d"), on("mac-3", "c")];
  const second = readRefusals(history, all, MEMORY_WAIT_MS + 1);
  expect(second.recheckAfterMs).toBe(4_999);
  expect(second.history.refusals.map(({ host, message }) => `${host} ${message}`)).toEqual([
    "mac-1 MemoryPressure",
    "mac-2 refused",
  ]);
  const again = readRefusals(
    { ...second.history, since: new Map([["e", 0]]) },
    [on("mac-1", "e")],
    MEMORY_WAIT_MS + 2,
  );
  expect(again.history.refusals.map(({ host, atMs }) => [host, atMs])).toEqual([
    ["mac-2", MEMORY_WAIT_MS + 1],
    ["mac-1", MEMORY_WAIT_MS + 2],
  ]);
});
