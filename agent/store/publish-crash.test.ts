/** The store is copied before each step of a fetch, to test the files on disk after a kill at that step. */
import { cpSync, readdirSync, readFileSync } from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { basename, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";

const names = ["chmod", "mkdir", "open", "rename", "rm", "symlink"] as const;

/** Reports each real call before it changes the disk. Returns a function that removes the hooks. */
function watchSteps(before: (step: string) => void): () => void {
  const real = { ...promises };
  for (const name of names)
    Object.assign(promises, {
      [name]: (...args: unknown[]) => {
        before(`${name} ${String(args[0])}`);
        return Reflect.apply(real[name], promises, args);
      },
    });
  syncBuiltinESMExports();
  return () => {
    Object.assign(promises, real);
    syncBuiltinESMExports();
  };
}

test("a kill at any step of fetching and publishing leaves a complete model or one that the next fetch completes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const shards = [ggufBytes(50_000, 1), ggufBytes(40_000, 2)];
  for (const [index, shard] of shards.entries()) origin.serve(`/m-0000${index + 1}-of-00002.gguf`, shard);
  const source = `${origin.url}/m-00001-of-00002.gguf`;
  await using copies = await startStore();
  const taken: { readonly dir: string; readonly step: string }[] = [];
  // Node binds the calls that `cp` makes at the first copy of a process, so the first copy must run before the hooks.
  cpSync(at.dir, join(copies.dir, "first"), { recursive: true, verbatimSymlinks: true });
  const stop = watchSteps((step) => {
    const dir = join(copies.dir, String(taken.length));
    cpSync(at.dir, dir, { recursive: true, verbatimSymlinks: true });
    taken.push({ dir, step });
  });
  onTestFinished(stop);
  await at.store.fetch({ source }, fetchOptions());
  stop();

  expect(taken.filter(({ step }) => step.startsWith("rename")).length).toBeGreaterThanOrEqual(4);
  for (const { dir, step } of taken) {
    const store = await at.reopen({ dir });
    const found = await store.resolve({ source });
    const model = found ?? (await store.fetch({ source }, fetchOptions()));
    const read = model.files.map(({ path }) => readFileSync(path));
    expect(read.map(sha256), step).toEqual(shards.map(sha256));
    expect(readFileSync(model.path).equals(shards[0] ?? Buffer.alloc(0)), step).toBe(true);
    expect(
      readdirSync(join(dir, "partial")).filter((name) => name.endsWith(".part")),
      step,
    ).toEqual([]);
    expect(readdirSync(join(dir, "blobs/sha256")).sort(), step).toEqual(shards.map(sha256).sort());
    expect(
      readdirSync(join(dir, "views")).map((name) => basename(name)),
      step,
    ).toHaveLength(1);
  }
});
