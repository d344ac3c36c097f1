import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { createServiceMemory } from "./memory.ts";

const replica = (uid: string, deletionTimestamp?: string): InferenceReplica =>
  ({
    metadata: { name: `chat-${uid}`, uid, deletionTimestamp },
    spec: { template: { serviceUid: "s1" } },
  }) as unknown as InferenceReplica;

const uidsOf = (replicas: readonly InferenceReplica[]) =>
  replicas.map(
    ({ metadata }) => `${metadata.uid}${metadata.deletionTimestamp === undefined ? "" : " leaving"}`,
  );

test("a created replica counts once, for its service only, before the watch shows it", () => {
  const memory = createServiceMemory();
  memory.noteCreated(replica("a"), 0);
  expect(uidsOf(memory.upToDate("s1", [], 1))).toEqual(["a"]);
  expect(uidsOf(memory.upToDate("s2", [], 1))).toEqual([]);
  expect(uidsOf(memory.upToDate("s1", [replica("a")], 1))).toEqual(["a"]);
});

test("a replica that the watch has shown and removed does not count again", () => {
  const memory = createServiceMemory();
  memory.noteCreated(replica("a"), 0);
  memory.noteSeen(replica("a"), false);
  memory.noteSeen(replica("a"), true);
  expect(uidsOf(memory.upToDate("s1", [], 1))).toEqual([]);
});

test("a deleted replica is being deleted, although the cache does not show it yet", () => {
  const memory = createServiceMemory();
  memory.noteRemoved(replica("a"), 0);
  expect(uidsOf(memory.upToDate("s1", [replica("a"), replica("b")], 1))).toEqual(["a leaving", "b"]);
  memory.noteSeen(replica("a"), false);
  expect(uidsOf(memory.upToDate("s1", [replica("a")], 1))).toEqual(["a leaving"]);
  memory.noteSeen(replica("a", "now"), false);
  expect(uidsOf(memory.upToDate("s1", [replica("a", "now")], 1))).toEqual(["a leaving"]);
});

test("a replica that the watch does not show for a minute is forgotten", () => {
  const memory = createServiceMemory();
  memory.noteCreated(replica("a"), 0);
  memory.noteRemoved(replica("b"), 0);
  expect(uidsOf(memory.upToDate("s1", [replica("b")], 60_001))).toEqual(["b"]);
});
