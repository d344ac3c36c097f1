import {
  chmodSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore, testClock } from "./fixtures/store.ts";

const content = ggufBytes(300_000);
const other = ggufBytes(200_000, 2);
const signal = new AbortController().signal;
const DAY_MS = 86_400_000;

function blobOf(dir: string, bytes: Buffer): string {
  return join(dir, "blobs/sha256", sha256(bytes));
}

function flipOneBit(path: string): void {
  const bytes = readFileSync(path);
  bytes[150_000] = (bytes[150_000] ?? 0) ^ 1;
  chmodSync(path, 0o600);
  // The file is changed in place, because engines have it open.
  writeFileSync(path, bytes);
}

test("a flipped bit is found and set aside, engines keep the file they opened, and the next fetch downloads it again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  origin.serve("/other.gguf", other);
  const request = { source: `${origin.url}/m.gguf` };
  const model = await at.store.fetch(request, fetchOptions());
  await at.store.fetch({ source: `${origin.url}/other.gguf` }, fetchOptions());
  at.store.hold("replica", [sha256(content)]);
  const engine = openSync(model.path, "r");
  flipOneBit(blobOf(at.dir, content));
  const files = await at.store.verify({ signal });
  expect(files.map(({ file, state }) => [file, state]).sort()).toEqual([
    ["m.gguf", "damaged"],
    ["other.gguf", "intact"],
  ]);
  expect(readdirSync(join(at.dir, "quarantine"))).toEqual([sha256(content)]);
  expect(readSync(engine, Buffer.alloc(300_000))).toBe(300_000);
  const listed = () => at.store.list().then((all) => all.find(({ source }) => source === request.source));
  expect(await listed()).toMatchObject({ damaged: true, inUse: true });
  expect((await listed())?.verifiedAt).toBeUndefined();
  expect(await at.store.resolve(request)).toBeUndefined();
  expect(await at.store.verify({ signal, sources: [request.source] })).toMatchObject([{ state: "missing" }]);
  const again = await at.store.fetch(request, fetchOptions());
  expect(readFileSync(again.path).equals(content)).toBe(true);
  expect(await listed()).toMatchObject({ damaged: false, verifiedAt: expect.any(String) });
});

test("only files whose last verification is too old are read again, and the time is kept across a restart", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  origin.serve("/other.gguf", other);
  for (const name of ["m.gguf", "other.gguf"])
    await at.store.fetch({ source: `${origin.url}/${name}` }, fetchOptions());
  const old = new Date(Date.now() - 40 * DAY_MS);
  utimesSync(blobOf(at.dir, content), old, old);
  const due = { signal, beforeMs: Date.now() - 30 * DAY_MS };
  const names = async (store = at.store) => (await store.verify(due)).map(({ file }) => file);
  expect(await names(await at.reopen({ isReadOnly: true }))).toEqual(["m.gguf"]);
  expect(await names()).toEqual(["m.gguf"]);
  expect(await names()).toEqual([]);
  expect(await names(await at.reopen())).toEqual([]);
  writeFileSync(join(at.dir, "verified.json"), "{");
  expect(await names(await at.reopen())).toEqual(["m.gguf"]);
});

test("a store that is opened read-only reports damaged files and leaves them in place", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  flipOneBit(blobOf(at.dir, content));
  const reader = await at.reopen({ isReadOnly: true });
  expect(await reader.verify({ signal })).toMatchObject([{ state: "damaged" }]);
  expect(existsSync(blobOf(at.dir, content))).toBe(true);
  expect(existsSync(join(at.dir, "verified.json"))).toBe(false);
});

test("background verification keeps its rate by waiting after each chunk", async () => {
  await using origin = await startOrigin();
  const waits: number[] = [];
  const clock = {
    ...testClock,
    monotonicMs: () => 1_000,
    after: (delayMs: number, fire: () => void) => {
      waits.push(delayMs);
      queueMicrotask(fire);
      return () => undefined;
    },
  };
  await using at = await startStore();
  const large = ggufBytes(2.5 * 2 ** 20);
  origin.serve("/m.gguf", large);
  await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  const slow = await at.reopen({ clock });
  const progress: number[] = [];
  const onProgress = ({ bytes }: { bytes: number }) => progress.push(bytes);
  await slow.verify({ signal, bytesPerSecond: 2 ** 20, onProgress });
  // The clock does not advance, so the waits add up.
  expect(waits).toEqual([1_000, 2_000, 2_500]);
  expect(progress).toEqual([2 ** 20, 2 * 2 ** 20, 2.5 * 2 ** 20]);
});

test("a verification run that is aborted ends between two chunks or before the next file", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  for (const name of ["a", "b"]) origin.serve(`/${name}.gguf`, ggufBytes(100_000, name === "a" ? 1 : 2));
  for (const name of ["a", "b"])
    await at.store.fetch({ source: `${origin.url}/${name}.gguf` }, fetchOptions());
  let files = 0;
  expect(await at.store.verify({ signal, mayContinue: () => files++ < 1 })).toHaveLength(1);
  const stop = new AbortController();
  const run = at.store.verify({ signal: stop.signal, onProgress: () => stop.abort(new Error("enough")) });
  await expect(run).rejects.toThrow("enough");
});

test("content that was removed or replaced during verification is not quarantined", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf` };
  await at.store.fetch(request, fetchOptions());
  const path = blobOf(at.dir, content);
  flipOneBit(path);
  const onProgress = () => {
    rmSync(path);
    writeFileSync(path, content);
  };
  expect(await at.store.verify({ signal, onProgress })).toMatchObject([{ state: "missing" }]);
  expect(existsSync(join(at.dir, "quarantine"))).toBe(false);
  expect(await at.store.verify({ signal })).toMatchObject([{ state: "intact" }]);
});

test("content that was verified recently is not due when its blob was deleted by hand", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(await at.store.verify({ signal })).toMatchObject([{ state: "intact" }]);
  rmSync(blobOf(at.dir, content));
  expect(await at.store.verify({ signal, beforeMs: 1 })).toEqual([]);
});
