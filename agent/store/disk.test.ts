import { execFileSync, spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { ggufBytes, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, silentLog, startStore } from "./fixtures/store.ts";
import { contentsOf } from "./usage.ts";

const MIB = 2 ** 20;
const canMount = process.platform === "linux" && process.getuid?.() === 0 && mountsWork();

function mountsWork(): boolean {
  try {
    execFileSync("unshare", ["--mount", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** A separate disk that is small enough to fill up. */
function mountDisk(folder: string, size: string): { readonly path: string } & Disposable {
  const path = join(folder, "disk");
  mkdirSync(path);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", path]);
  return { path, [Symbol.dispose]: () => void execFileSync("umount", [path]) };
}

test("a download that does not fit next to the reserve is refused with the numbers before a byte is written", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ reserveBytes: 2 ** 50 });
  origin.serve("/m.gguf", ggufBytes(MIB));
  const failure = await at.store
    .fetch({ source: `${origin.url}/m.gguf` }, fetchOptions())
    .catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "DiskFull" });
  expect(String(failure)).toMatch(/needs 1 MiB more; the disk has .* free, of which 1024 TiB are reserved/);
  expect(
    readdirSync(join(at.dir, "partial")).map(
      (name) => statSync(join(at.dir, "partial", name)).size > MIB / 2,
    ),
  ).not.toContain(true);
});

test("disk space that the OS frees on demand is counted before a download is refused, and in status", async () => {
  await using origin = await startOrigin();
  const content = ggufBytes(MIB);
  origin.serve("/m.gguf", content);
  const source = `${origin.url}/m.gguf`;
  let purged: number | undefined = 2 ** 50 - 1;
  await using at = await startStore({ reserveBytes: 2 ** 50, capacityWithPurging: async () => purged });
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toMatchObject({ code: "DiskFull" });
  purged = undefined;
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toMatchObject({ code: "DiskFull" });
  purged = 2 ** 51;
  expect((await at.store.fetch({ source }, fetchOptions())).sizeBytes).toBe(MIB);
  expect(await at.store.collect()).toEqual([]);
  expect((await at.store.disk()).freeBytes).toBe(2 ** 51);
});

test.skipIf(!canMount)(
  "a disk that fills up during a download is reported with a code and numbers, and stored models stay usable (needs root on Linux)",
  async () => {
    await using origin = await startOrigin();
    await using outer = await startStore();
    using disk = mountDisk(outer.dir, "12m");
    const store = await outer.reopen({ dir: disk.path });
    const small = ggufBytes(3 * MIB, 1);
    origin.serve("/small.gguf", small);
    const model = await store.fetch({ source: `${origin.url}/small.gguf` }, fetchOptions());
    store.hold("replica", contentsOf(model));
    // The response has no length, so only the disk itself can report that it is full.
    const large = ggufBytes(20 * MIB, 2);
    origin.on("/large.gguf", (_, response) => {
      response.writeHead(200);
      response.end(large);
    });
    const failure = await store
      .fetch({ source: `${origin.url}/large.gguf` }, fetchOptions())
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({
      code: "DiskFull",
      message: expect.stringMatching(/large\.gguf needs more space; the disk has .* free/),
    });
    expect(readFileSync(model.path).equals(small)).toBe(true);
    expect((await store.disk()).freeBytes).toBeGreaterThan(5 * MIB);
    origin.serve("/next.gguf", ggufBytes(4 * MIB, 3));
    await store.fetch({ source: `${origin.url}/next.gguf` }, fetchOptions());
    expect(await store.resolve({ source: `${origin.url}/small.gguf` })).toEqual(model);
  },
);

test.skipIf(!canMount)(
  "a download that fills the disk frees some space and keeps the rest of its part (needs root on Linux)",
  async () => {
    await using origin = await startOrigin();
    await using outer = await startStore();
    using disk = mountDisk(outer.dir, "100m");
    const store = await outer.reopen({ dir: disk.path });
    const block = ggufBytes(MIB);
    origin.on("/large.gguf", (_, response) => {
      response.writeHead(200, { etag: '"v1"' });
      response.end(Buffer.concat(Array.from({ length: 120 }, () => block)));
    });
    await expect(store.fetch({ source: `${origin.url}/large.gguf` }, fetchOptions())).rejects.toMatchObject({
      code: "DiskFull",
    });
    const [part = ""] = readdirSync(join(disk.path, "partial")).filter((name) => name.endsWith(".part"));
    expect(statSync(join(disk.path, "partial", part)).size).toBeGreaterThan(30 * MIB);
    expect((await store.disk()).freeBytes).toBeGreaterThan(60 * MIB);
  },
);

test("the quota evicts the least recently used models, never those in use, and refuses downloads that cannot fit", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2_500_000 });
  for (const seed of [1, 2, 3, 4]) origin.serve(`/m${seed}.gguf`, ggufBytes(1_000_000, seed));
  const source = (seed: number) => `${origin.url}/m${seed}.gguf`;
  const first = await at.store.fetch({ source: source(1) }, fetchOptions());
  at.store.hold("replica-1", contentsOf(first));
  await at.store.fetch({ source: source(2) }, fetchOptions());
  await at.store.fetch({ source: source(3) }, fetchOptions());
  expect((await at.store.list()).map((model) => [model.source, model.inUse])).toEqual([
    [source(1), true],
    [source(3), false],
  ]);
  const third = await at.store.fetch({ source: source(3) }, fetchOptions());
  at.store.hold("replica-3", contentsOf(third));
  await expect(at.store.fetch({ source: source(4) }, fetchOptions())).rejects.toMatchObject({
    code: "DiskFull",
    message: expect.stringMatching(/quota of 2\.4 MiB/),
  });
  at.store.hold("replica-1", contentsOf(first, undefined, third));
  expect((await at.store.list()).map((model) => model.inUse)).toEqual([true, true]);
  expect(await at.store.remove(source(1))).toEqual({ at: "inUse", owners: ["replica-1"] });
  at.store.release("replica-1");
  await at.store.fetch({ source: source(4) }, fetchOptions());
  expect((await at.store.list()).map((model) => model.source)).toEqual([source(3), source(4)]);
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toHaveLength(2);
  at.store.setQuota(0);
  at.store.release("replica-3");
  expect(await at.store.collect()).toHaveLength(2);
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toEqual([]);
  expect(readdirSync(join(at.dir, "views"))).toEqual([]);
});

test.skipIf(!canMount)(
  "the reserve is restored without a download by evicting unused models, least recently used first (needs root on Linux)",
  async () => {
    await using origin = await startOrigin();
    await using outer = await startStore();
    using disk = mountDisk(outer.dir, "24m");
    const store = await outer.reopen({ dir: disk.path, reserveBytes: 8 * MIB });
    const source = (seed: number) => `${origin.url}/m${seed}.gguf`;
    for (const seed of [1, 2, 3]) {
      origin.serve(`/m${seed}.gguf`, ggufBytes(4 * MIB, seed));
      const model = await store.fetch({ source: source(seed) }, fetchOptions());
      if (seed === 1) store.hold("replica", contentsOf(model));
    }
    expect(await store.collect()).toEqual([]);
    writeFileSync(join(disk.path, "strangers.log"), Buffer.alloc(6 * MIB));
    expect((await store.collect()).map((model) => model.source)).toEqual([source(2)]);
    expect((await store.disk()).freeBytes).toBeGreaterThanOrEqual(8 * MIB);
    writeFileSync(join(disk.path, "strangers.log"), Buffer.alloc(14 * MIB));
    expect((await store.collect()).map((model) => model.source)).toEqual([source(3)]);
    expect((await store.list()).map((model) => model.source)).toEqual([source(1)]);
    expect(await store.collect()).toEqual([]);
  },
);

test("a model that was fetched only for a benchmark is evicted first", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 5 * MIB });
  for (const name of ["used", "measured", "new"])
    origin.serve(`/${name}.gguf`, Buffer.concat([ggufBytes(2 * MIB - 8), Buffer.from(name.padEnd(8))]));
  const sourceOf = (name: string) => `${origin.url}/${name}.gguf`;
  for (const name of ["used", "measured"]) await at.store.fetch({ source: sourceOf(name) }, fetchOptions());
  await at.store.evictFirst({ source: sourceOf("measured") });
  await at.store.resolve({ source: sourceOf("measured") }, "(benchmark)", { keepsUse: true });
  at.store.release("(benchmark)");
  const [, measured] = await at.store.list();
  expect(measured?.lastUsedAt).not.toContain("1970");
  await at.store.fetch({ source: sourceOf("new") }, fetchOptions());
  expect((await at.store.list()).map(({ source }) => source).sort()).toEqual(
    [sourceOf("new"), sourceOf("used")].sort(),
  );
});

test("parts and the finished files of incomplete models are unfinished bytes; files of stored models are not", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", ggufBytes(1_000_000, 1));
  const { sha256: stored = "" } = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(await at.store.disk()).toMatchObject({ unfinishedBytes: 0 });
  const shard = "a".repeat(64);
  writeFileSync(join(at.dir, "blobs/sha256", shard), Buffer.alloc(500_000));
  writeFileSync(join(at.dir, "partial", "0.part"), Buffer.alloc(700_000));
  const records = [shard, stored].map((sha256) => JSON.stringify({ sha256, sizeBytes: 1, validator: {} }));
  for (const [index, text] of records.entries())
    writeFileSync(join(at.dir, "partial", `${index}.finished`), text);
  expect(await at.store.disk()).toMatchObject({ unfinishedBytes: 1_200_000 + records.join("").length });
});

test("nothing is evicted if evicting all unused models would not free enough space", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2_500_000 });
  origin.serve("/small.gguf", ggufBytes(1_000_000, 1));
  origin.serve("/large.gguf", ggufBytes(3_000_000, 2));
  await at.store.fetch({ source: `${origin.url}/small.gguf` }, fetchOptions());
  const large = at.store.fetch({ source: `${origin.url}/large.gguf` }, fetchOptions());
  await expect(large).rejects.toMatchObject({ code: "DiskFull" });
  expect(await at.store.list()).toHaveLength(1);
});

test("a model that comes into use while others are evicted is kept", async () => {
  await using origin = await startOrigin();
  const source = (seed: number) => `${origin.url}/m${seed}.gguf`;
  for (const seed of [1, 2]) origin.serve(`/m${seed}.gguf`, ggufBytes(1_000_000, seed));
  let onRemoved = () => {};
  const log = { ...silentLog, info: () => onRemoved() };
  await using at = await startStore({ log });
  await at.store.fetch({ source: source(1) }, fetchOptions());
  const second = await at.store.fetch({ source: source(2) }, fetchOptions());
  onRemoved = () => at.store.hold("replica", contentsOf(second));
  at.store.setQuota(0);
  expect((await at.store.collect()).map((model) => model.source)).toEqual([source(1)]);
  expect((await at.store.list()).map((model) => model.source)).toEqual([source(2)]);
});

test("content that a fetch found in the store is not evicted to make room for the other files of the same model", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2_500_000 });
  for (const seed of [1, 2, 3]) origin.serve(`/m${seed}.gguf`, ggufBytes(1_000_000, seed));
  for (const seed of [1, 2]) await at.store.fetch({ source: `${origin.url}/m${seed}.gguf` }, fetchOptions());
  origin.serve("/w.gguf", ggufBytes(1_000_000, 1));
  const request = {
    source: `${origin.url}/w.gguf`,
    files: ["m3.gguf"],
    sha256: sha256(ggufBytes(1_000_000, 1)),
  };
  const model = await at.store.fetch(request, fetchOptions({ owner: "replica" }));
  expect(model.files.map(({ path }) => statSync(path).size)).toEqual([1_000_000, 1_000_000]);
  expect(await at.store.resolve(request)).toEqual(model);
  expect((await at.store.list()).map(({ source, inUse }) => [source, inUse])).toEqual([
    [`${origin.url}/m1.gguf`, true],
    [request.source, true],
  ]);
});

test("old parts and incomplete folders are removed at startup, recent parts are kept, and a broken index is ignored", async () => {
  await using at = await startStore();
  const old = new Date(Date.now() - 8 * 24 * 3_600_000);
  for (const name of ["old.part", "young.part", "x.tmp"]) writeFileSync(join(at.dir, "partial", name), "x");
  utimesSync(join(at.dir, "partial", "old.part"), old, old);
  mkdirSync(join(at.dir, "views", "v.tmp"));
  writeFileSync(join(at.dir, "refs", "broken.json"), "{");
  writeFileSync(join(at.dir, "blobs/sha256", "a".repeat(64)), "x");
  utimesSync(join(at.dir, "blobs/sha256", "a".repeat(64)), old, old);
  const store = await at.reopen();
  expect(readdirSync(join(at.dir, "partial"))).toEqual(["young.part"]);
  expect(readdirSync(join(at.dir, "views"))).toEqual([]);
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toEqual([]);
  expect(await store.list()).toEqual([]);
});

test("content stored by a newer version survives a rollback", async () => {
  await using at = await startStore();
  const entry = join(at.dir, "refs", "newer.json");
  const blob = join(at.dir, "blobs/sha256", "a".repeat(64));
  writeFileSync(entry, JSON.stringify({ version: 2, models: ["a".repeat(64)] }));
  writeFileSync(blob, "x");
  const old = new Date(Date.now() - 8 * 24 * 3_600_000);
  utimesSync(blob, old, old);
  const store = await at.reopen();
  expect(await store.list()).toEqual([]);
  expect([entry, blob].filter((path) => existsSync(path))).toEqual([entry, blob]);
});

test("a process killed during a download leaves a part that the next process completes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const content = ggufBytes(6 * MIB);
  const source = `${origin.url}/m.gguf`;
  origin.on("/m.gguf", (_, response) => {
    response.writeHead(200, { etag: '"v1"', "content-length": content.length });
    response.write(content.subarray(0, 4 * MIB));
  });
  const script = `
    import { openStore } from ${JSON.stringify(join(import.meta.dirname, "store.ts"))};
    import { testClock, silentLog } from ${JSON.stringify(join(import.meta.dirname, "fixtures/store.ts"))};
    const store = await openStore({ dir: ${JSON.stringify(at.dir)}, clock: testClock, log: silentLog, allowedRoots: [],
      hfEndpoint: "https://huggingface.co", allowLoopback: true, reserveBytes: 0, bootId: "this boot" });
    await store.fetch({ source: ${JSON.stringify(source)} }, { signal: new AbortController().signal });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit" });
  const part = () => readdirSync(join(at.dir, "partial")).find((name) => name.endsWith(".part"));
  await vi.waitFor(
    () => expect(statSync(join(at.dir, "partial", part() ?? "none")).size).toBeGreaterThanOrEqual(3 * MIB),
    {
      timeout: 60_000,
      interval: 20,
    },
  );
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  origin.on("/m.gguf", (request, response) => sendFile(request, response, content, '"v1"'));
  const model = await (await at.reopen()).fetch({ source }, fetchOptions());
  expect(model.sha256).toBe(sha256(content));
  const start = Number(/^bytes=(\d+)-/.exec(origin.seen.at(-1)?.headers.range ?? "")?.[1]);
  expect(start).toBeGreaterThanOrEqual(3 * MIB);
});

test("only parts of abandoned downloads are evicted from a folder that other programs read", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2_500_000, neverEvicts: true });
  for (const seed of [1, 2, 3]) origin.serve(`/m${seed}.gguf`, ggufBytes(1_000_000, seed));
  const source = (seed: number) => `${origin.url}/m${seed}.gguf`;
  await at.store.fetch({ source: source(1) }, fetchOptions());
  const part = join(at.dir, "partial", `${"0".repeat(40)}.part`);
  // No replica references the model any more, but a pod may still serve it.
  const blob = join(at.dir, "blobs/sha256", "0".repeat(64));
  writeFileSync(part, Buffer.alloc(700_000));
  writeFileSync(blob, Buffer.alloc(400_000));
  await at.store.fetch({ source: source(2) }, fetchOptions());
  expect([existsSync(part), existsSync(blob)]).toEqual([false, true]);
  const third = at.store.fetch({ source: source(3) }, fetchOptions());
  await expect(third).rejects.toMatchObject({ code: "DiskFull" });
  expect((await at.store.list()).map((model) => model.source)).toEqual([source(1), source(2)]);
  expect(existsSync(blob)).toBe(true);
});

test("parts of abandoned downloads are evicted before any model, and parts of running downloads are kept", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ quotaBytes: 2_500_000 });
  for (const seed of [1, 2]) origin.serve(`/m${seed}.gguf`, ggufBytes(1_000_000, seed));
  const source = (seed: number) => `${origin.url}/m${seed}.gguf`;
  await at.store.fetch({ source: source(1) }, fetchOptions());
  const [part, blob] = [
    join(at.dir, "partial", "0".repeat(40)),
    join(at.dir, "blobs/sha256", "0".repeat(64)),
  ];
  writeFileSync(`${part}.part`, Buffer.alloc(700_000));
  writeFileSync(blob, Buffer.alloc(700_000));
  await at.store.fetch({ source: source(2) }, fetchOptions());
  expect((await at.store.list()).map((model) => model.source)).toEqual([source(1), source(2)]);
  expect([existsSync(`${part}.part`), existsSync(blob)]).toContain(false);
  await at.store.clean();
  expect([existsSync(`${part}.part`), existsSync(blob)]).toEqual([false, false]);
});
