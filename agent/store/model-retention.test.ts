import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, type Origin, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";
import type { ModelStore } from "./types.ts";

const SIZE = 1_000_000;

function serveAll(origin: Origin): (seed: number) => string {
  for (const seed of [1, 2, 3, 4]) origin.serve(`/m${seed}.gguf`, ggufBytes(SIZE, seed));
  return (seed) => `${origin.url}/m${seed}.gguf`;
}

async function sources(store: ModelStore): Promise<readonly string[]> {
  return (await store.list()).map(({ source }) => source).sort();
}

test("a pinned model is never evicted, even after a restart, and a store full of pinned models reports this", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2.5 * SIZE });
  const source = serveAll(origin);
  await at.store.fetch({ source: source(1) }, fetchOptions());
  await at.store.pin(`${source(1)}?token=secret`);
  await at.store.fetch({ source: source(2) }, fetchOptions());
  const store = await at.reopen();
  await store.fetch({ source: source(3) }, fetchOptions());
  expect(await sources(store)).toEqual([source(1), source(3)]);
  expect(await store.remove(source(1))).toEqual({ at: "pinned" });
  await store.pin(source(3));
  const failure = await store.fetch({ source: source(4) }, fetchOptions()).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    code: "DiskFull",
    remedy: {
      summary: expect.stringMatching(
        /^nothing can be evicted.* 1\.9 MiB .* pinned \(2 models\) or in use \(0\).*unpin a model/,
      ),
      command: "metalbridge models list",
    },
  });
  expect(await store.unpin(source(1))).toBe("unpinned");
  expect(await store.unpin(source(1))).toBe("wasNot");
  await store.fetch({ source: source(4) }, fetchOptions());
  expect(await sources(store)).toEqual([source(3), source(4)]);
});

test("models pinned by the cluster are kept, and prefetched models are evicted last", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 3.5 * SIZE });
  const source = serveAll(origin);
  for (const seed of [1, 2, 3]) await at.store.fetch({ source: source(seed) }, fetchOptions());
  at.store.declare({ pinned: [source(1)], prefetched: [source(2)] });
  expect(await at.store.unpin(source(1))).toBe("declared");
  await at.store.fetch({ source: source(4) }, fetchOptions());
  expect(await sources(at.store)).toEqual([source(1), source(2), source(4)]);
  at.store.setQuota(SIZE);
  expect((await at.store.collect()).map((model) => model.source)).toEqual([source(4), source(2)]);
  at.store.declare({ pinned: [], prefetched: [] });
  at.store.setQuota(0);
  expect((await at.store.collect()).map((model) => model.source)).toEqual([source(1)]);
});

test("a cleanup removes unused models and quarantined files", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = serveAll(origin);
  for (const seed of [1, 2, 3, 4]) await at.store.fetch({ source: source(seed) }, fetchOptions());
  await at.store.pin(source(1));
  at.store.declare({ pinned: [], prefetched: [source(2)] });
  const third = await at.store.resolve({ source: source(3) }, "replica");
  expect(third?.sizeBytes).toBe(SIZE);
  mkdirSync(join(at.dir, "quarantine"));
  writeFileSync(join(at.dir, "quarantine", "a".repeat(64)), "damaged");
  expect((await at.store.disk()).storeBytes).toBe(4 * SIZE + 7);
  expect((await at.store.clean()).map((model) => model.source)).toEqual([source(4)]);
  expect(await sources(at.store)).toEqual([1, 2, 3].map(source));
  expect(readdirSync(join(at.dir, "quarantine"))).toEqual([]);
  expect(await at.store.remove(source(3))).toEqual({ at: "inUse", owners: ["replica"] });
  expect(await at.store.remove(source(4))).toEqual({ at: "absent" });
  at.store.release("replica");
  expect(await at.store.remove(source(3))).toEqual({ at: "removed", sizeBytes: SIZE });
});
