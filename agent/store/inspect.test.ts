import { appendFileSync, readFileSync, statSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type GgufWriteValue, writeGguf } from "../../local/demo/gguf-writer.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { startStore } from "./fixtures/store.ts";
import { createInspector } from "./inspect.ts";
import type { StoredModel } from "./types.ts";

async function folder() {
  const path = await mkdtemp(join(tmpdir(), "mb-inspect-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

function stored(...paths: readonly string[]): StoredModel {
  const files = paths.map((path) => ({ name: path, path, sizeBytes: statSync(path).size }));
  const sizeBytes = files.reduce((sum, file) => sum + file.sizeBytes, 0);
  return { path: paths[0] ?? "", sizeBytes, files };
}

test("layers, heads and the size of the weights are read from the header of a model used in place", async () => {
  await using place = await folder();
  const path = join(place.path, "tiny.gguf");
  await writeTinyGguf(path, { layers: 3 });
  await using made = await startStore({ allowedRoots: [place.path] });
  const model = await made.store.resolve({ source: path });
  if (model === undefined) throw new Error("not resolved");
  const { size } = statSync(path);
  const found = await made.store.inspect(model);
  expect(found).toMatchObject({ sizeBytes: size, projectorBytes: 0, gguf: { layerCount: 3 } });
  expect(found.gguf?.weightsBytes).toBeGreaterThan(size / 2);
  expect(found.problem).toBeUndefined();
});

test("all parts of a split model are counted, and the projector separately", async () => {
  await using place = await folder();
  const u32 = (value: number): GgufWriteValue => ({ type: "u32", value });
  const write = (path: string, sizeBytes: number, more: Record<string, GgufWriteValue>) =>
    writeGguf(path, {
      metadata: new Map(
        Object.entries<GgufWriteValue>({
          "general.architecture": { type: "string", value: "llama" },
          ...more,
        }),
      ),
      tensors: [{ name: "blk.0.ffn_up.weight", dimensions: [sizeBytes / 4], ggmlType: 0, sizeBytes }],
    });
  const paths = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "mmproj.gguf"].map((name) =>
    join(place.path, name),
  );
  const [first = "", second = "", projector = ""] = paths;
  await write(first, 4096, { "llama.block_count": u32(2) });
  await write(second, 8192, {});
  await write(projector, 1024, {});
  await using made = await startStore({ allowedRoots: [place.path] });
  const model = await made.store.resolve({ source: first, mmproj: "mmproj.gguf" });
  if (model === undefined) throw new Error("not resolved");
  const found = await made.store.inspect(model);
  expect(found).toMatchObject({
    sizeBytes: paths.reduce((sum, path) => sum + statSync(path).size, 0),
    projectorBytes: statSync(projector).size,
    gguf: { layerCount: 2, weightsBytes: 4096 + 8192 },
  });
});

test("a truncated or invalid file is reported with a code and its name, and still has its size", async () => {
  await using place = await folder();
  const inspect = createInspector();
  const cut = join(place.path, "cut.gguf");
  await writeTinyGguf(cut);
  truncateSync(cut, statSync(cut).size - 1000);
  expect(await inspect(stored(cut))).toMatchObject({
    sizeBytes: statSync(cut).size,
    problem: { code: "GgufTruncated", message: expect.stringContaining("cut.gguf") },
  });
  const page = join(place.path, "page.gguf");
  writeFileSync(page, "<html>log in</html>");
  expect((await inspect(stored(page))).problem?.code).toBe("SourceIsNotAModel");
  const gone = {
    ...stored(page),
    files: [{ name: "gone.gguf", path: join(place.path, "gone"), sizeBytes: 7 }],
  };
  expect(await inspect(gone)).toMatchObject({ problem: { code: "FileUnreadable" } });
});

test("a file without a GGUF name has sizes only", async () => {
  await using place = await folder();
  const weights = join(place.path, "model.safetensors");
  writeFileSync(weights, "x".repeat(100));
  expect(await createInspector()(stored(weights))).toEqual({ sizeBytes: 100, projectorBytes: 0 });
});

test("a file is read once, and again only when its modification time or size has changed", async () => {
  await using place = await folder();
  const inspect = createInspector();
  const path = join(place.path, "tiny.gguf");
  await writeTinyGguf(path, { layers: 2 });
  const other = join(place.path, "other.gguf");
  await writeTinyGguf(other, { layers: 1 });
  const date = new Date(1_700_000_000_000);
  utimesSync(path, date, date);
  expect((await inspect(stored(path))).gguf?.layerCount).toBe(2);
  const { size } = statSync(path);
  // With the same time and size, the cached result is used.
  writeFileSync(path, readFileSync(other));
  if (statSync(path).size < size) appendFileSync(path, Buffer.alloc(size - statSync(path).size));
  utimesSync(path, date, date);
  expect((await inspect(stored(path))).gguf?.layerCount).toBe(2);
  utimesSync(path, new Date(), new Date());
  expect((await inspect(stored(path))).gguf?.layerCount).toBe(1);
});
