import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cutAfter, ggufBytes, type Origin, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, patientLimits, silentLog, startStore, testClock } from "./fixtures/store.ts";

const content = ggufBytes(2_500_000);

interface Case {
  readonly name: string;
  readonly code: string;
  readonly says?: RegExp;
  readonly prepare: (origin: Origin) => void;
  readonly sha256?: string;
  /** Expected number of requests to the origin: only retries that can help, up to the limit. */
  readonly requests: number;
  /** Stall timeout of the store, for a source that stalls. */
  readonly limits?: { readonly stallMs: number; readonly connectMs: number };
}

const status = (code: number) => (origin: Origin) =>
  origin.on("/m.gguf", (_, response) => void response.writeHead(code).end("no"));

const cases: readonly Case[] = [
  { name: "401", code: "SourceUnauthorized", says: /answered 401/, prepare: status(401), requests: 1 },
  { name: "403", code: "SourceForbidden", prepare: status(403), requests: 1 },
  { name: "404", code: "SourceNotFound", prepare: status(404), requests: 1 },
  { name: "418", code: "SourceRefused", says: /418/, prepare: status(418), requests: 1 },
  {
    name: "500, every time",
    code: "SourceUnavailable",
    says: /3 attempts/,
    prepare: status(500),
    requests: 3,
  },
  { name: "429, every time", code: "SourceUnavailable", prepare: status(429), requests: 3 },
  {
    name: "a redirect loop",
    code: "SourceRedirects",
    says: /circle/,
    prepare: (origin) =>
      origin.on("/m.gguf", (_, response) => void response.writeHead(302, { location: "/m.gguf" }).end()),
    requests: 1,
  },
  {
    name: "an endless chain of redirects",
    code: "SourceRedirects",
    says: /more than 10/,
    prepare: (origin) => {
      for (let hop = 0; hop < 20; hop += 1) {
        const path = hop === 0 ? "/m.gguf" : `/hop${hop}`;
        origin.on(path, (_, response) => void response.writeHead(307, { location: `/hop${hop + 1}` }).end());
      }
    },
    requests: 11,
  },
  {
    name: "a redirect to a file",
    code: "SourceNotAllowed",
    prepare: (origin) =>
      origin.on(
        "/m.gguf",
        (_, response) => void response.writeHead(302, { location: "file:///etc/passwd" }).end(),
      ),
    requests: 1,
  },
  {
    name: "a redirect to the metadata service",
    code: "SourceNotAllowed",
    says: /169\.254\.169\.254/,
    prepare: (origin) =>
      origin.on(
        "/m.gguf",
        (_, response) => void response.writeHead(302, { location: "http://169.254.169.254/latest" }).end(),
      ),
    requests: 1,
  },
  {
    name: "truncated, every time at the same place",
    code: "SourceTruncated",
    says: /of 2500000 bytes/,
    prepare: (origin) => {
      origin.on("/m.gguf", (request, response) => {
        if (request.headers.range !== undefined) return void response.socket?.destroy();
        cutAfter(response, content, 1000);
      });
    },
    requests: 3,
  },
  {
    name: "stalled",
    code: "SourceStalled",
    prepare: (origin) => {
      origin.on("/m.gguf", (request, response) => {
        if (request.headers.range !== undefined) return;
        response.writeHead(200, { etag: '"x"', "content-length": content.length });
        response.write(content.subarray(0, 1000));
      });
    },
    requests: 3,
    limits: { stallMs: 300, connectMs: 10_000 },
  },
  {
    name: "the wrong checksum",
    code: "ChecksumMismatch",
    says: new RegExp(`${sha256(content)}.*${"0".repeat(64)}`),
    prepare: (origin) => origin.serve("/m.gguf", content),
    sha256: "0".repeat(64),
    requests: 1,
  },
  {
    name: "a web page",
    code: "SourceIsNotAModel",
    says: /web page/,
    prepare: (origin) =>
      origin.on("/m.gguf", (_, response) => {
        response.writeHead(200, { "content-type": "text/html" }).end("<!DOCTYPE html><html>log in</html>");
      }),
    requests: 1,
  },
  {
    name: "something that is no GGUF",
    code: "SourceIsNotAModel",
    prepare: (origin) => origin.serve("/m.gguf", Buffer.from('{"error":"no"}')),
    requests: 1,
  },
  {
    name: "zero bytes",
    code: "SourceEmpty",
    prepare: (origin) => origin.serve("/m.gguf", Buffer.alloc(0)),
    requests: 1,
  },
  {
    name: "zero bytes without a length",
    code: "SourceEmpty",
    prepare: (origin) => origin.on("/m.gguf", (_, response) => void response.writeHead(200).end()),
    requests: 1,
  },
  {
    name: "compressed content",
    code: "SourceRefused",
    prepare: (origin) =>
      origin.on(
        "/m.gguf",
        (_, response) => void response.writeHead(200, { "content-encoding": "gzip" }).end("x"),
      ),
    requests: 1,
  },
];

test.each(cases)("$name fails with $code and leaves nothing that counts as a model", async (each) => {
  await using origin = await startOrigin();
  await using at = await startStore({ limits: { ...patientLimits, ...each.limits } });
  each.prepare(origin);
  const request = { source: `${origin.url}/m.gguf`, sha256: each.sha256 };
  const failure = await at.store.fetch(request, fetchOptions()).catch((error: unknown) => error);
  expect(failure).toMatchObject({ name: "MetalbridgeError", code: each.code });
  if (each.says !== undefined) expect(String(failure)).toMatch(each.says);
  expect(origin.seen).toHaveLength(each.requests);
  expect(await at.store.resolve(request)).toBeUndefined();
  expect(readdirSync(join(at.dir, "blobs/sha256"))).toEqual([]);
  // A failed download does not block the next one.
  origin.serve("/m.gguf", content);
  expect((await at.store.fetch({ source: request.source }, fetchOptions())).sha256).toBe(sha256(content));
});

test("a source that succeeds after two failures is fetched", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  let failures = 2;
  origin.on("/m.gguf", (_, response) => {
    failures -= 1;
    if (failures >= 0) return void response.writeHead(503, { "retry-after": "0" }).end();
    response.writeHead(200, { "content-length": content.length }).end(content);
  });
  expect((await at.store.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions())).sizeBytes).toBe(
    content.length,
  );
});

test("a closed port, an unknown name and a server that never answers are distinguished from a missing file", async () => {
  await using at = await startStore();
  await expect(at.store.fetch({ source: "http://127.0.0.1:1/m.gguf" }, fetchOptions())).rejects.toMatchObject(
    { code: "SourceUnreachable" },
  );
  await expect(
    at.store.fetch({ source: "http://no-such-host.invalid/m.gguf" }, fetchOptions()),
  ).rejects.toMatchObject({
    code: "SourceUnreachable",
  });
  const silent = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => silent.once("listening", resolve));
  const address = silent.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const store = await at.reopen({
    limits: { attempts: 1, stallMs: 100, connectMs: 10_000, firstBackoffMs: 1 },
  });
  await expect(
    store.fetch({ source: `http://127.0.0.1:${port}/m.gguf` }, fetchOptions()),
  ).rejects.toMatchObject({ code: "SourceStalled" });
  silent.close();
});

test("link-local addresses are never allowed, loopback and private ones only if configured, and remote hosts by list", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const port = new URL(origin.url).port;
  const strict = await at.reopen({ allowLoopback: false });
  const refused = [
    `http://127.0.0.1:${port}/m.gguf`,
    `http://localhost:${port}/m.gguf`,
    `http://2130706433:${port}/m.gguf`,
    `http://[::ffff:127.0.0.1]:${port}/m.gguf`,
    "http://10.1.2.3/m.gguf",
    "http://169.254.169.254/m.gguf",
    "http://[fe80::1]/m.gguf",
    "http://0.0.0.0/m.gguf",
  ];
  for (const source of refused) {
    await expect(strict.fetch({ source }, fetchOptions()), source).rejects.toMatchObject({
      code: "SourceNotAllowed",
    });
  }
  expect(origin.seen).toEqual([]);
  const listed = await at.reopen({ allowedHosts: ["*.example.com"] });
  await expect(listed.fetch({ source: `${origin.url}/m.gguf` }, fetchOptions())).rejects.toThrow(
    /not among the allowed/,
  );
  await expect(
    (await at.reopen()).fetch({ source: "http://169.254.169.254/m.gguf" }, fetchOptions()),
  ).rejects.toMatchObject({ code: "SourceNotAllowed" });
});

test("the token is sent to the origin of the source only", async () => {
  await using origin = await startOrigin();
  await using elsewhere = await startOrigin();
  await using at = await startStore();
  elsewhere.serve("/real.gguf", content);
  origin.on("/m.gguf", (_, response) => void response.writeHead(302, { location: "/here.gguf" }).end());
  origin.on(
    "/here.gguf",
    (_, response) => void response.writeHead(302, { location: `${elsewhere.url}/real.gguf` }).end(),
  );
  await at.store.fetch(
    { source: `${origin.url}/m.gguf`, credentials: { token: "hf_secret" } },
    fetchOptions(),
  );
  expect(origin.seen.map((seen) => seen.headers.authorization)).toEqual([
    "Bearer hf_secret",
    "Bearer hf_secret",
  ]);
  expect(elsewhere.seen.map((seen) => seen.headers.authorization)).toEqual([undefined]);
});

test("file names that leave their folder are refused before any request is sent", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = `${origin.url}/m.gguf`;
  for (const name of [
    "../x.gguf",
    "/etc/passwd",
    "a/../../x.gguf",
    "a\\b.gguf",
    "",
    "a//b",
    "nul\u0000.gguf",
    "x".repeat(300),
  ]) {
    await expect(at.store.fetch({ source, files: [name] }, fetchOptions()), name).rejects.toMatchObject({
      code: "FileNameNotAllowed",
    });
    await expect(at.store.fetch({ source, mmproj: name }, fetchOptions()), name).rejects.toMatchObject({
      code: "FileNameNotAllowed",
    });
  }
  await expect(
    at.store.fetch({ source: `${origin.url}/%2e%2e%2fx.gguf` }, fetchOptions()),
  ).rejects.toMatchObject({
    code: "FileNameNotAllowed",
  });
  expect(origin.seen).toEqual([]);
});

test("a checksum of one source cannot replace the content of another source", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const other = ggufBytes(1000, 5);
  origin.serve("/mine.gguf", content);
  origin.serve("/trusted.gguf", other);
  await at.store.fetch({ source: `${origin.url}/mine.gguf` }, fetchOptions());
  await at.store.fetch({ source: `${origin.url}/trusted.gguf`, sha256: sha256(content) }, fetchOptions());
  const honest = await at.store.fetch({ source: `${origin.url}/trusted.gguf` }, fetchOptions());
  expect(honest.sha256).toBe(sha256(other));
});

test("the last download with a wrong checksum stays in quarantine until the cleanup, and its path is in the log and the error", async () => {
  await using origin = await startOrigin();
  const warnings: string[] = [];
  const log = { ...silentLog, warn: (_: object, text: string) => warnings.push(text) };
  await using at = await startStore({ log });
  origin.serve("/m.gguf", content);
  const quarantine = join(at.dir, "quarantine");
  for (const digit of ["0", "1"]) {
    const stated = digit.repeat(64);
    const place = `quarantine/download-${stated}`;
    const request = { source: `${origin.url}/m.gguf`, sha256: stated };
    const failure = await at.store.fetch(request, fetchOptions()).catch((error: unknown) => error);
    expect(String(failure)).toContain(`the download is kept as ${place} in the model store`);
    expect(warnings.join()).toContain("moved the download to quarantine");
    expect(readdirSync(quarantine)).toEqual([`download-${stated}`]);
    expect(readFileSync(join(at.dir, place)).equals(content)).toBe(true);
    expect(await at.store.resolve(request)).toBeUndefined();
  }
  expect(readdirSync(join(at.dir, "partial"))).toEqual([]);
  expect(await at.store.list()).toEqual([]);
  const nextWeek = { ...testClock, nowMs: () => Date.now() + 8 * 24 * 3_600_000 };
  await at.reopen({ clock: nextWeek });
  expect(readdirSync(quarantine)).toEqual([]);

  const onVolume = await at.reopen({ neverEvicts: true });
  const wrong = { source: `${origin.url}/m.gguf`, sha256: "2".repeat(64) };
  await expect(onVolume.fetch(wrong, fetchOptions())).rejects.toMatchObject({ code: "ChecksumMismatch" });
  expect([...readdirSync(quarantine), ...readdirSync(join(at.dir, "partial"))]).toEqual([]);
});
