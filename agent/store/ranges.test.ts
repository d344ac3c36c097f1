/** Files that are shared among several connections. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { ggufBytes, type Origin, sendFile, sha256, startOrigin } from "./fixtures/origin.ts";
import { fetchOptions, patientLimits, silentLog, startStore } from "./fixtures/store.ts";

const content = ggufBytes(3_000_000);
const digest = sha256(content);
/** Every file is shared at once. */
const sharing = {
  limits: { ...patientLimits, connections: 4, segmentBytes: 100_000, shareAboveMs: 0 },
};

interface Slow {
  readonly go: () => void;
  readonly cut: () => void;
}

/** Answers the first request with the beginning; `go` sends the rest of it. */
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
    go = () => void response.end(content.subarray(20_000));
    cut = () => void response.socket?.destroy();
  });
  return { go: (): void => go(), cut: (): void => cut() };
}

const rangesOf = (origin: Origin) => origin.seen.slice(1).map(({ headers }) => headers.range ?? "");

test("further connections fetch ranges of a slow file, each of the version that the first one has", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  let answered = 0;
  const first: Slow = slowFirst(origin, (request, response) => {
    answered += 1;
    response.once("finish", () => answered === 5 && first.go());
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
  // No byte twice, and nothing far ahead while the first connection hangs.
  const ranges = rangesOf(origin).map(
    (range) => /^bytes=(\d+)-(\d+)$/.exec(range)?.slice(1).map(Number) ?? [],
  );
  expect(new Set(ranges.map(([start]) => start)).size).toBe(ranges.length);
  expect(Math.max(...ranges.slice(0, 5).map(([, end = 0]) => end))).toBeLessThan(20_000 + 7 * 100_000);
});

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const unhelpful: Readonly<Record<string, Handler>> = {
  "refuses further connections": (_, response) => void response.writeHead(503).end(),
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

test("a file that changes while it is shared is fetched again, whole", async () => {
  await using origin = await startOrigin();
  await using at = await startStore(sharing);
  const other = ggufBytes(3_000_000, 7);
  slowFirst(origin, (request, response) => sendFile(request, response, other, '"v2"'));
  const model = await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions());
  expect(model.sha256).toBe(sha256(other));
});

test("when the first connection breaks off, the others fetch what it left", async () => {
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

test("after all connections broke off, the next attempt continues behind the contiguous bytes", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...sharing.limits, attempts: 1 } });
  let isBroken = true;
  const first = slowFirst(origin, (request, response) => {
    const start = Number(/\d+/.exec(request.headers.range ?? "")?.[0]);
    // The second range is whole, the third is not, all others fail.
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
