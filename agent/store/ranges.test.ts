/** Files that are downloaded over several connections. */

import { cpSync, readdirSync, statSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, type Origin, sendFile, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, patientLimits, silentLog, startStore } from "./fixtures/store.ts";

const content = ggufBytes(3_000_000);
const digest = sha256(content);
/** Every download uses several connections immediately. */
const sharing = {
  limits: { ...patientLimits, connections: 4, segmentBytes: 100_000, shareAboveMs: 0 },
};

interface Slow {
  readonly go: () => void;
  readonly cut: () => void;
}

/** Answers the first request with the beginning of the file; `go` sends the remaining bytes. */
function slowFirst(
  origin: Origin,
  others: (request: IncomingMessage, response: ServerResponse) => void,
): Slow {
  let go = (): void => undefined;
  let cut = (): void => undefined;
  let isFirst = true;
  origin.on("/m.gguf", (request, response) => {
    if (!isFirst) return others(request, response);
    isFirst = false;
    response.writeHead(200, { etag: '"v1"', "content-length": content.length, "accept-ranges": "bytes" });
    response.write(content.subarray(0, 20_000));
    go = () => {
      if (!response.writableEnded) response.end(content.subarray(20_000));
    };
    cut = () => void response.socket?.destroy();
  });
  return { go: (): void => go(), cut: (): void => cut() };
}

const rangesOf = (origin: Origin) => origin.seen.slice(1).map(({ headers }) => headers.range ?? "");

test("additional connections fetch ranges of a slow file, all of the same version as the first connection", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  let answered = 0;
  const first: Slow = slowFirst(origin, (request, response) => {
    answered += 1;
    response.once("finish", () => answered >= 5 && first.go());
    sendFile(request, response, content, '"v1"');
  });
  const seen: number[] = [];
  const model = await at.store.fetch(
    { source: `${origin.url}/m.gguf` },
    fetchOptions({ onProgress: ({ bytes }) => seen.push(bytes) }),
  );
  expect(model.sha256).toBe(digest);
  expect(seen.at(-1)).toBe(content.length);
  expect(seen.every((bytes, index) => bytes >= (seen[index - 1] ?? 0))).toBe(true);
  expect(origin.seen.slice(1).every(({ headers }) => headers["if-range"] === '"v1"')).toBe(true);
  // No byte is fetched twice, and no range is fetched far ahead while the first connection hangs.
  const ranges = rangesOf(origin).map(
    (range) => /^bytes=(\d+)-(\d+)$/.exec(range)?.slice(1).map(Number) ?? [],
  );
  expect(new Set(ranges.map(([start]) => start)).size).toBe(ranges.length);
  expect(Math.max(...ranges.slice(0, 5).map(([, end = 0]) => end))).toBeLessThan(20_000 + 7 * 100_000);
});

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const unhelpful: Readonly<Record<string, Handler>> = {
  "refuses further connections": (_, response) => void response.writeHead(503).end(),
  "refuses the token on them": (_, response) => void response.writeHead(401).end(),
  "never answers them": () => undefined,
  "drops them": (_, response) => void response.socket?.destroy(),
  "sends them the whole file": (_, response) =>
    void response.writeHead(200, { etag: '"v1"', "content-length": content.length }).end(content),
};

test.each(Object.entries(unhelpful))(
  "a server that %s sends the file over the first one, without an error",
  async (_, others) => {
    await using origin = await startOrigin();
    const warnings: string[] = [];
    await using at = await startStore({
      ...sharing,
      log: { ...silentLog, warn: (_data, text) => warnings.push(text) },
    });
    const first = slowFirst(origin, (request, response) => {
      others(request, response);
      if (origin.seen.length === 4) first.go();
    });
    const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
    expect(model.sha256).toBe(digest);
    expect(warnings).toEqual([]);
  },
);

test("a file that changes during a download over several connections is fetched again completely", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  const other = ggufBytes(3_000_000, 7);
  slowFirst(origin, (request, response) => sendFile(request, response, other, '"v2"'));
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(model.sha256).toBe(sha256(other));
});

test("when the first connection breaks, the others fetch its missing bytes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  let isCut = false;
  origin.on("/m.gguf", (request, response) => {
    if (request.headers.range !== undefined) {
      if (!isCut) cut();
      isCut = true;
      return sendFile(request, response, content, '"v1"');
    }
    response.writeHead(200, { etag: '"v1"', "content-length": content.length, "accept-ranges": "bytes" });
    response.write(content.subarray(0, 20_000));
    cut = () => response.socket?.destroy();
  });
  let cut = (): unknown => undefined;
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(model.sha256).toBe(digest);
  expect(origin.seen.filter(({ headers }) => headers.range === undefined)).toHaveLength(1);
});

test("after all connections broke, the next attempt continues after the contiguous bytes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...sharing.limits, attempts: 1 } });
  let isBroken = true;
  const first = slowFirst(origin, (request, response) => {
    const start = Number(/\d+/.exec(request.headers.range ?? "")?.[0]);
    // The second range is complete, the third is truncated, and all others fail.
    if (!isBroken || start < 300_000) return sendFile(request, response, content, '"v1"');
    response.socket?.destroy();
    first.cut();
  });
  const source = `${origin.url}/m.gguf`;
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toMatchObject({
    code: expect.stringMatching(/^Source/),
  });
  isBroken = false;
  const asked = origin.seen.length;
  const store = await at.reopen({ limits: { ...patientLimits, connections: 1 } });
  expect((await store.fetch({ source }, fetchOptions())).sha256).toBe(digest);
  const [start] = rangesOf(origin).slice(asked - 1);
  expect(start).toMatch(/^bytes=\d+-$/);
  expect(origin.seen).toHaveLength(asked + 1);
});

test("after a kill with ranges ahead of the contiguous bytes, the next fetch continues after the contiguous bytes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  await using copy = await startStore();
  slowFirst(origin, (request, response) => sendFile(request, response, content, '"v1"'));
  const source = `${origin.url}/m.gguf`;
  const controller = new AbortController();
  let sawRanges = (): void => undefined;
  const rangesAreThere = new Promise<void>((resolve) => {
    sawRanges = resolve;
  });
  const fetching = at.store.fetch(
    { source },
    { signal: controller.signal, onProgress: ({ bytes }) => bytes >= 420_000 && sawRanges() },
  );
  const ended = expect(fetching).rejects.toThrow("killed");
  await rangesAreThere;
  cpSync(at.dir, copy.dir, { recursive: true });
  controller.abort(new Error("killed"));
  await ended;
  const [part = ""] = readdirSync(join(copy.dir, "partial")).filter((name) => name.endsWith(".part"));
  expect(statSync(join(copy.dir, "partial", part)).size).toBeGreaterThan(400_000);
  const store = await copy.reopen();
  expect((await store.fetch({ source }, fetchOptions())).sha256).toBe(digest);
  const { range = "bytes=0-" } = origin.seen.at(-1)?.headers ?? {};
  expect(Number(/^bytes=(\d+)-$/.exec(range)?.[1])).toBeLessThanOrEqual(20_000);
});

test("mixed content that only the checksum reveals is fetched once more, over one connection", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  const other = ggufBytes(3_000_000, 7);
  let finishFirst: (() => void) | undefined;
  // The source sends no validator.
  origin.on("/m.gguf", (request, response) => {
    const range = /^bytes=(\d+)-(\d+)$/
      .exec(request.headers.range ?? "")
      ?.slice(1)
      .map(Number);
    if (range === undefined) {
      const file = finishFirst === undefined ? other : content;
      response.writeHead(200, { "content-length": file.length, "accept-ranges": "bytes" });
      response.write(file.subarray(0, 20_000));
      if (finishFirst !== undefined) return void response.end(file.subarray(20_000));
      finishFirst = () => {
        if (!response.writableEnded) response.end(file.subarray(20_000));
      };
      return;
    }
    const [start = 0, end = 0] = range;
    response.once("finish", () => finishFirst?.());
    response.writeHead(206, { "content-range": `bytes ${start}-${end}/${content.length}` });
    response.end(content.subarray(start, end + 1));
  });
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf`, sha256: digest }, fetchOptions());
  expect(model.sha256).toBe(digest);
  expect(origin.seen.at(-1)?.headers.range).toBeUndefined();
});
