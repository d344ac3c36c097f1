import fc from "fast-check";
import { expect, test } from "vitest";
import { type AssignedModel, addressDigest, createGrants, mayFetch } from "./grants.ts";

const all = { sources: ["hf://org/m"], addresses: ["https://hub/org/m/m.gguf"] };
const here = addressDigest("https://hub/org/m/m.gguf");
const elsewhere = addressDigest("https://evil/m.gguf");

test.each<[string, AssignedModel[], boolean, string | undefined, boolean]>([
  ["public, named by source", [{ source: "hf://org/m" }], true, undefined, true],
  ["public, named by checksum", [{ source: "hf://mirror/m", sha256: "ab" }], true, elsewhere, true],
  ["public, not named", [{ source: "hf://mirror/m", sha256: "cd" }], true, here, false],
  ["nothing is assigned", [], true, here, false],
  ["with credentials, named by source", [{ source: "hf://org/m" }], false, here, true],
  ["with credentials, from elsewhere", [{ source: "hf://org/m" }], false, elsewhere, false],
  ["with credentials, from an unknown place", [{ source: "hf://org/m" }], false, undefined, false],
  ["with credentials, named by checksum", [{ source: "https://evil/m", sha256: "ab" }], false, here, false],
])("who may have content: %s", (_, wanted, isPublic, requestedDigest, isGiven) => {
  expect(mayFetch(wanted, "ab", { ...all, isPublic }, requestedDigest)).toBe(isGiven);
});

test("the replicas of a host with many requests are read at most once in two seconds", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 40 }), async (pauses) => {
      let nowMs = 0;
      const reads: number[] = [];
      const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, after: () => () => undefined };
      const grants = createGrants(async () => {
        reads.push(nowMs);
        return [];
      }, clock);
      const host = { metadata: { name: "member" }, spec: {} } as Parameters<typeof grants.allows>[0]["host"];
      for (const pauseMs of pauses) {
        nowMs += pauseMs;
        const provenance = { ...all, isPublic: true };
        expect(await grants.allows({ host, sha256: "ab", provenance, requestedDigest: here })).toBe(false);
      }
      for (const [index, atMs] of reads.entries())
        if (index > 0) expect(atMs - (reads[index - 1] ?? 0)).toBeGreaterThanOrEqual(2_000);
    }),
  );
});
