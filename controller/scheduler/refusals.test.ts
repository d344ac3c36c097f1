import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { REFUSAL_MS } from "../../src/capacity/placement/filters.ts";
import { EMPTY_BOOK, PATIENCE_MS, readRefusals } from "./refusals.ts";

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
  const first = readRefusals(EMPTY_BOOK, waiting, 1_000);
  expect(first.displaced.size).toBe(0);
  expect(first.recheckAfterMs).toBe(PATIENCE_MS);

  const later = readRefusals(first.book, waiting, 1_000 + PATIENCE_MS);
  expect([...later.displaced]).toEqual(["chat-0-a"]);
  expect(later.book.refusals).toEqual([
    { host: "mac-1", atMs: 1_000 + PATIENCE_MS, message: "InsufficientMemory" },
  ]);

  const soon = readRefusals(later.book, [], 1_000 + PATIENCE_MS + REFUSAL_MS - 1);
  expect(soon.book.refusals).toHaveLength(1);
  expect(readRefusals(soon.book, [], 1_000 + PATIENCE_MS + REFUSAL_MS).book.refusals).toEqual([]);
});

test("a replica that recovers restarts its patience, and other reasons to wait are no refusal", () => {
  const first = readRefusals(EMPTY_BOOK, waiting, 0);
  const recovered = readRefusals(first.book, [replica("Ready")], 20_000);
  expect(readRefusals(recovered.book, waiting, 31_000).displaced.size).toBe(0);
  expect(
    readRefusals(EMPTY_BOOK, [replica("Waiting", "RuntimeNotInstalled")], 0).recheckAfterMs,
  ).toBeUndefined();
  expect(readRefusals(EMPTY_BOOK, [replica("Evicted")], 0).recheckAfterMs).toBe(PATIENCE_MS);
});

test("a file that the host may not read or does not have is tried on other hosts", () => {
  const failed = [replica("Failed", "SourceNotAllowed", "file:///models/a.gguf")];
  const { book } = readRefusals(EMPTY_BOOK, failed, 0);
  expect([...readRefusals(book, failed, PATIENCE_MS).displaced]).toEqual(["chat-0-a"]);
  const remote = [replica("Failed", "SourceNotAllowed")];
  expect(readRefusals(EMPTY_BOOK, remote, 0).recheckAfterMs).toBeUndefined();
});
