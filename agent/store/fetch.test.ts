import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { cutAfter, ggufBytes, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { changeMarkerOf, fetchOptions, patientLimits, startStore } from "./fixtures/store.ts";
import type { FetchProgress } from "./types.ts";

const content = ggufBytes(3_000_000);

function code(expected: string) {
  return expect.objectContaining({ code: expected });
}

function parts(dir: string): string[] {
  return readdirSync(join(dir, "partial"));
}

test("a file is stored under its checksum, and afterwards used without the network", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf?token=secret` };
  expect(await at.store.resolve(request)).toBeUndefined();
  const progress: FetchProgress[] = [];
  const model = await at.store.fetch(request, fetchOptions({ onProgress: (seen) => progress.push(seen) }));
  expect(model).toMatchObject({ sha256: sha256(content), sizeBytes: content.length });
  expect(model.path).toMatch(/\/m\.gguf$/);
  expect(readFileSync(model.path).equals(content)).toBe(true);
  expect(progress.at(-1)).toEqual({ bytes: content.length, totalBytes: content.length });
  expect(parts(at.dir)).toEqual([]);
  const asked = origin.seen.length;
  expect(await at.store.resolve(request)).toEqual(model);
  expect(await at.store.fetch(request, fetchOptions())).toEqual(model);
  expect(await (await at.reopen()).resolve(request)).toEqual(model);
  expect(origin.seen.length).toBe(asked);
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toEqual([sha256(content)]);
});

test("two names with one checksum are stored once; content with a stated checksum that is on disk is not fetched again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/a.gguf", content);
  origin.serve("/b.gguf", content);
  const digest = sha256(content);
  await at.store.fetch({ source: `${origin.url}/a.gguf` }, fetchOptions());
  const second = await at.store.fetch(
    { source: `${origin.url}/b.gguf`, sha256: digest.toUpperCase() },
    fetchOptions(),
  );
  const third = await at.store.fetch({ source: `${origin.url}/b.gguf` }, fetchOptions());
  expect([second.sha256, third.sha256]).toEqual([digest, digest]);
  expect(origin.seen.map((seen) => seen.path)).toEqual(["/a.gguf", "/b.gguf"]);
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toEqual([digest]);
  expect(await at.store.list()).toHaveLength(3);
});

test("an interrupted download resumes where it stopped", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  let cuts = 2;
  origin.on("/m.gguf", (request, response) => {
    if (cuts === 0) return sendFile(request, response, content, '"v1"');
    cuts -= 1;
    const range = /^bytes=(\d+)-/.exec(request.headers.range ?? "");
    const start = Number(range?.[1] ?? 0);
    const rest = content.subarray(start);
    if (start > 0) {
      response.writeHead(206, {
        etag: '"v1"',
        "content-length": rest.length,
        "content-range": `bytes ${start}-${content.length - 1}/${content.length}`,
      });
      return void response.write(rest.subarray(0, 500_000), () => response.socket?.end());
    }
    cutAfter(response, content, 1_200_000, '"v1"');
  });
  const model = await at.store.fetch(
    { source: `${origin.url}/m.gguf`, sha256: sha256(content) },
    fetchOptions(),
  );
  expect(model.sha256).toBe(sha256(content));
  const ranges = origin.seen.map((seen) => seen.headers.range);
  expect(ranges).toEqual([undefined, "bytes=1200000-", "bytes=1700000-"]);
  expect(origin.seen[1]?.headers["if-range"]).toBe('"v1"');
});

test("the part is reused after a restart during a download; a source that has changed is fetched completely", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...patientLimits, attempts: 1 } });
  const source = `${origin.url}/m.gguf`;
  origin.on("/m.gguf", (_, response) => cutAfter(response, content, 1_500_000, '"v1"'));
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toThrow(code("SourceTruncated"));
  expect(parts(at.dir)).toHaveLength(2);
  origin.serve("/m.gguf", content, '"v1"');
  const again = await at.reopen();
  expect((await again.fetch({ source }, fetchOptions())).sha256).toBe(sha256(content));
  expect(origin.seen.at(-1)?.headers.range).toBe("bytes=1500000-");

  const other = ggufBytes(3_000_000, 7);
  origin.on("/n.gguf", (_, response) => cutAfter(response, content, 1_500_000, '"v1"'));
  await expect(again.fetch({ source: `${origin.url}/n.gguf` }, fetchOptions())).rejects.toThrow(
    code("SourceTruncated"),
  );
  origin.serve("/n.gguf", other, '"v2"');
  expect((await again.fetch({ source: `${origin.url}/n.gguf` }, fetchOptions())).sha256).toBe(sha256(other));
});

test.each<[string, number, (start: number) => object]>([
  [
    "status 200",
    200,
    (start) => ({ "content-range": `bytes ${start}-${content.length - 1}/${content.length}` }),
  ],
  [
    "status 200 and no total",
    200,
    (start) => ({ "content-range": `bytes ${start}-${content.length - 1}/*` }),
  ],
  ["status 200 and no Content-Range", 200, () => ({})],
  ["status 200 and no length", 200, () => ({ "content-length": undefined })],
  ["status 206 and no Content-Range", 206, () => ({})],
  ["a status that refuses the request", 400, () => ({})],
  ["compressed content", 200, () => ({ "content-encoding": "gzip" })],
  ["a status that refuses ranges", 416, () => ({})],
])("a download resumes from a server that answers ranges with %s", async (_, status, headersOf) => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.on("/m.gguf", (request, response) => {
    const start = Number(/^bytes=(\d+)-/.exec(request.headers.range ?? "")?.[1] ?? 0);
    if (origin.seen.length === 1) return cutAfter(response, content, 1_200_000, '"v1"');
    if (start === 0) return sendFile(request, response, content, '"v1"');
    const rest = content.subarray(start);
    const headers = { etag: '"v1"', "content-length": rest.length, ...headersOf(start) };
    response.writeHead(
      status,
      Object.fromEntries(Object.entries(headers).filter(([, one]) => one !== undefined)),
    );
    response.end(rest);
  });
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(model.sha256).toBe(sha256(content));
  expect(origin.seen.length).toBeLessThanOrEqual(3);
});

test("a server that ignores ranges or returns other ones causes a second download, never mixed content", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  let asked = 0;
  origin.on("/m.gguf", (_, response) => {
    asked += 1;
    if (asked === 1) return cutAfter(response, content, 2_000_000, '"v1"');
    if (asked === 2) {
      const rest = content.subarray(10);
      response.writeHead(206, {
        etag: '"v1"',
        "content-length": rest.length,
        "content-range": `bytes 10-${content.length - 1}/${content.length}`,
      });
      return void response.end(rest);
    }
    response.writeHead(200, { etag: '"v1"', "content-length": content.length }).end(content);
  });
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(model.sha256).toBe(sha256(content));
  expect(asked).toBe(3);
});

test("one download serves all concurrent requests, and is aborted only when the last of them is canceled", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  let release = (): void => undefined;
  let isClosed = false;
  origin.on("/m.gguf", (_, response) => {
    response.writeHead(200, { etag: '"v1"', "content-length": content.length });
    response.write(content.subarray(0, 1_000_000));
    response.once("close", () => {
      isClosed = !response.writableFinished;
    });
    release = () => response.end(content.subarray(1_000_000));
  });
  const [first, second] = [new AbortController(), new AbortController()];
  const source = `${origin.url}/m.gguf`;
  let sawBytes = (): void => undefined;
  const bytesArrive = new Promise<void>((resolve) => {
    sawBytes = resolve;
  });
  const one = at.store.fetch({ source }, { signal: first.signal });
  const two = at.store.fetch({ source }, { signal: second.signal, onProgress: sawBytes });
  await bytesArrive;
  first.abort(new Error("gave up"));
  await expect(one).rejects.toThrow("gave up");
  expect(isClosed).toBe(false);
  release();
  expect((await two).sha256).toBe(sha256(content));
  expect(origin.seen).toHaveLength(1);
});

test("an abandoned download releases its part before the next one starts", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = `${origin.url}/m.gguf`;
  origin.on("/m.gguf", (_, response) => {
    response.writeHead(200, { etag: '"v1"', "content-length": content.length });
    response.write(content.subarray(0, 1_100_000));
  });
  const controller = new AbortController();
  const abandoned = at.store.fetch(
    { source },
    {
      signal: controller.signal,
      onProgress: ({ bytes }) => bytes > 0 && controller.abort(new Error("stop")),
    },
  );
  await expect(abandoned).rejects.toThrow("stop");
  origin.serve("/m.gguf", content, '"v1"');
  expect((await at.store.fetch({ source }, fetchOptions())).sha256).toBe(sha256(content));
});

test("content is stored under its change marker, and other content of the source is not fetched in its place", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = `${origin.url}/m.gguf`;
  const marked = async () => ({ source, changeMarker: await changeMarkerOf(source) });
  origin.serve("/m.gguf", content, '"v1"');
  const first = await marked();
  const before = await at.store.fetch(first, fetchOptions());
  const other = ggufBytes(1_000_000, 3);
  origin.serve("/m.gguf", other, '"v2"');
  const asked = origin.seen.length;
  const restarted = await at.reopen();
  expect(await restarted.resolve(first)).toEqual(before);
  expect(await restarted.fetch(first, fetchOptions())).toEqual(before);
  expect(origin.seen).toHaveLength(asked);
  const second = await marked();
  expect(await restarted.fetch(second, fetchOptions())).toMatchObject({ sha256: sha256(other) });
  expect(readFileSync(before.path).equals(content)).toBe(true);
  origin.serve("/m.gguf", content, '"v3"');
  const gets = origin.seen.filter(({ method }) => method === "GET").length;
  await using elsewhere = await startStore();
  await expect(elsewhere.store.fetch(second, fetchOptions())).rejects.toMatchObject({
    code: "SourceRevisionGone",
  });
  expect(origin.seen.filter(({ method }) => method === "GET")).toHaveLength(gets);
  expect((await restarted.fetch(second, fetchOptions())).sha256).toBe(sha256(other));
});

test("a file that changes during its download is not stored as the requested content", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = `${origin.url}/m.gguf`;
  origin.serve("/m.gguf", content, '"v1"');
  const request = { source, changeMarker: await changeMarkerOf(source) };
  let isSwapped = false;
  origin.on("/m.gguf", (asked, response) => {
    sendFile(asked, response, content, isSwapped ? '"v2"' : '"v1"');
    isSwapped ||= asked.method === "GET";
  });
  await expect(at.store.fetch(request, fetchOptions())).rejects.toMatchObject({ code: "SourceRevisionGone" });
  expect(await at.store.resolve(request)).toBeUndefined();
});

test("unchanged files of a folder are not fetched again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = `${origin.url}/m.gguf`;
  origin.serve("/m.gguf", content, '"same"');
  origin.serve("/mmproj.gguf", ggufBytes(10_000, 9), '"p1"');
  await at.store.fetch({ source, mmproj: "mmproj.gguf" }, fetchOptions());
  const projector = ggufBytes(10_000, 10);
  origin.serve("/mmproj.gguf", projector, '"p2"');
  const changeMarker = await changeMarkerOf(source, { mmproj: "mmproj.gguf" });
  const model = await at.store.fetch({ source, mmproj: "mmproj.gguf", changeMarker }, fetchOptions());
  expect(readFileSync(model.mmprojPath ?? "").equals(projector)).toBe(true);
  const gets = origin.seen.filter(({ method }) => method === "GET").map(({ path }) => path);
  expect(gets).toEqual(["/m.gguf", "/mmproj.gguf", "/mmproj.gguf"]);
});

test("shards and the projector are in one folder under their own names", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const shards = [1, 2, 3].map((seed) => ggufBytes(50_000, seed));
  for (const [index, shard] of shards.entries()) origin.serve(`/m-0000${index + 1}-of-00003.gguf`, shard);
  origin.serve("/mmproj-f16.gguf", ggufBytes(10_000, 9));
  const model = await at.store.fetch(
    { source: `${origin.url}/m-00002-of-00003.gguf`, mmproj: "mmproj-f16.gguf" },
    fetchOptions(),
  );
  expect(model.path).toMatch(/m-00001-of-00003\.gguf$/);
  expect(model.sizeBytes).toBe(160_000);
  const folder = model.path.replace(/[^/]+$/, "");
  expect(readdirSync(folder).sort()).toEqual([
    "m-00001-of-00003.gguf",
    "m-00002-of-00003.gguf",
    "m-00003-of-00003.gguf",
    "mmproj-f16.gguf",
  ]);
  expect(readFileSync(join(folder, "m-00003-of-00003.gguf")).equals(shards[2] ?? Buffer.alloc(0))).toBe(true);
  expect(model.mmprojPath).toBe(join(folder, "mmproj-f16.gguf"));
});

test("a missing blob is detected and fetched again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const source = `${origin.url}/m.gguf`;
  const model = await at.store.fetch({ source }, fetchOptions());
  const blob = model.files[0]?.path ?? "";
  chmodSync(blob, 0o600);
  writeFileSync(blob, "short");
  expect(await at.store.resolve({ source })).toBeUndefined();
  await at.store.fetch({ source }, fetchOptions());
  expect(statSync(model.path).size).toBe(content.length);
});

test("a shard that was complete before an interruption is not fetched again, unless it changed", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const [one, two] = [ggufBytes(50_000, 1), ggufBytes(50_000, 2)];
  origin.serve("/m-00001-of-00002.gguf", one, '"one"');
  const source = `${origin.url}/m-00001-of-00002.gguf`;
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toThrow(code("SourceNotFound"));
  origin.serve("/m-00002-of-00002.gguf", two);
  await (await at.reopen()).fetch({ source }, fetchOptions());
  const asked = origin.seen.filter((seen) => seen.path.includes("00001"));
  expect(asked.map((seen) => seen.method)).toEqual(["GET", "HEAD"]);
  expect(parts(at.dir)).toEqual([]);

  origin.serve("/n-00001-of-00002.gguf", one, '"one"');
  const next = `${origin.url}/n-00001-of-00002.gguf`;
  await expect(at.store.fetch({ source: next }, fetchOptions())).rejects.toThrow(code("SourceNotFound"));
  const changed = ggufBytes(60_000, 3);
  origin.serve("/n-00001-of-00002.gguf", changed, '"changed"');
  origin.serve("/n-00002-of-00002.gguf", two);
  expect((await at.store.fetch({ source: next }, fetchOptions())).sha256).toBe(sha256(changed));
});

test("a download beyond the limit is reported as queued, and starts when another one has finished", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...patientLimits, downloads: 1 } });
  let release = (): void => undefined;
  origin.on("/a.gguf", (request, response) => {
    release = () => sendFile(request, response, content);
  });
  origin.serve("/b.gguf", ggufBytes(1_000, 2));
  const first = at.store.fetch({ source: `${origin.url}/a.gguf` }, fetchOptions());
  await vi.waitFor(() => expect(origin.seen).toHaveLength(1), { timeout: 60_000 });
  const said: FetchProgress[] = [];
  const second = at.store.fetch(
    { source: `${origin.url}/b.gguf` },
    fetchOptions({ onProgress: (progress) => said.push(progress) }),
  );
  await vi.waitFor(() => expect(said).toEqual([{ bytes: 0, queuedBehind: 1 }]), { timeout: 60_000 });
  release();
  await Promise.all([first, second]);
  expect(origin.seen.map(({ path }) => path)).toEqual(["/a.gguf", "/b.gguf"]);
  expect(said.at(-1)).toEqual({ bytes: 1_000, totalBytes: 1_000 });
});

test("a namespace that joins a queued download of another namespace starts it at its own position", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...patientLimits, downloads: 2 } });
  let release = (): void => undefined;
  origin.on("/slow.gguf", (request, response) => {
    release = () => sendFile(request, response, content);
  });
  origin.serve("/m.gguf", ggufBytes(1_000, 2));
  const [slow, wanted] = [`${origin.url}/slow.gguf`, `${origin.url}/m.gguf`];
  const first = at.store.fetch({ source: slow }, fetchOptions({ tenant: "a" }));
  await vi.waitFor(() => expect(origin.seen).toHaveLength(1), { timeout: 60_000 });
  const said: FetchProgress[] = [];
  const onProgress = (progress: FetchProgress) => said.push(progress);
  const queued = at.store.fetch({ source: wanted }, fetchOptions({ tenant: "a", onProgress }));
  await vi.waitFor(() => expect(said).toEqual([{ bytes: 0, queuedBehind: 1 }]), { timeout: 60_000 });
  await at.store.fetch({ source: wanted }, fetchOptions({ tenant: "b" }));
  await queued;
  release();
  await first;
});

test("all downloads together stay within the bandwidth limit of the host", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...patientLimits, bytesPerSecond: 2_000_000 } });
  const files = [ggufBytes(500_000, 3), ggufBytes(500_000, 4)];
  for (const [index, file] of files.entries()) origin.serve(`/${index}.gguf`, file);
  const startedAt = performance.now();
  await Promise.all(
    files.map((_, index) => at.store.fetch({ source: `${origin.url}/${index}.gguf` }, fetchOptions())),
  );
  // The tolerance covers clock rounding and the last chunk, which is not throttled.
  expect(performance.now() - startedAt).toBeGreaterThan(400);
});
