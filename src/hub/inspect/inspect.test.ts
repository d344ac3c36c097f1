import { expect, test } from "vitest";
import { headerBytes, ranged, serveModel, TENSOR_BYTES } from "../../../test/fixtures/model-server.ts";
import { failureOf, inspectNow } from "../fixtures/inspect.ts";
import { withinMs } from "./inspect.ts";

const small = headerBytes(10);
const large = headerBytes(100_000);

test("the size, header and validator of a file are read, but not its tensors", async () => {
  const total = small.length + 3_000_000_000;
  const server = await serveModel(ranged(small, total));
  const found = await inspectNow(`${server.url}/dir/tiny.gguf?signature=1`);
  expect(found).toMatchObject({ format: "gguf", files: ["tiny.gguf"], sizeBytes: total, revision: '"v1"' });
  expect(found.gguf).toMatchObject({
    architecture: "llama",
    quantization: "Q8_0",
    layerCount: 2,
    weightsBytes: TENSOR_BYTES,
  });
  expect(server.requests).toHaveLength(1);
});

test("a long header is read in several ranges", async () => {
  const server = await serveModel(ranged(large, large.length + TENSOR_BYTES));
  expect((await inspectNow(`${server.url}/m.gguf`)).gguf?.layerCount).toBe(2);
  expect(server.requests.length).toBeGreaterThan(2);
  expect(server.requests.length).toBeLessThan(8);
});

type Sliced = (from: number, slice: Buffer, total: number) => readonly [number, object];

test.each<[string, Sliced]>([
  ["status 200", (from, slice, total) => [200, partOf(from, slice, total)]],
  ["status 200 and no total", (from, slice) => [200, partOf(from, slice, "*")]],
  ["status 200 and no Content-Range", () => [200, {}]],
  ["status 206 and no Content-Range", () => [206, {}]],
  [
    "status 206 and another unit",
    (from, slice, total) => [206, { "content-range": `${from}-${slice.length}/${total}` }],
  ],
  ["a status that refuses ranges", () => [416, {}]],
  ["a status that refuses the request", () => [400, {}]],
])("a long header is read from a server that answers ranges with %s", async (_, answer) => {
  const file = Buffer.concat([large, Buffer.alloc(TENSOR_BYTES)]);
  const server = await serveModel((request, response) => {
    const [from, to] =
      /^bytes=(\d+)-(\d+)$/
        .exec(request.headers.range ?? "")
        ?.slice(1)
        .map(Number) ?? [];
    if (from === undefined) return void response.writeHead(200, { "content-length": file.length }).end(file);
    const slice = file.subarray(from, (to ?? 0) + 1);
    const [status, headers] = answer(from, slice, file.length);
    response.writeHead(status, { "content-length": slice.length, etag: '"v1"', ...headers }).end(slice);
  });
  const found = await inspectNow(`${server.url}/m.gguf`);
  expect(found.gguf?.layerCount).toBe(2);
});

function partOf(from: number, slice: Buffer, total: number | string): object {
  return { "content-range": `bytes ${from}-${from + slice.length - 1}/${total}` };
}

test("the connection to a server without range support is closed once the header is complete", async () => {
  const total = large.length + (1 << 30);
  const server = await serveModel((_, response) => {
    response.writeHead(200, { "content-length": total });
    response.write(large);
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(1 << 16)));
    };
    response.on("drain", more);
    more();
  });
  const found = await inspectNow(`${server.url}/m.gguf`);
  expect(found.sizeBytes).toBe(total);
  await expect.poll(server.sent, { timeout: 60_000 }).toBeGreaterThan(large.length);
  expect(server.sent()).toBeLessThan(large.length + (64 << 20));
});

test("all parts of a split model are counted", async () => {
  const server = await serveModel(ranged(small, small.length + TENSOR_BYTES));
  const found = await inspectNow(`${server.url}/m-00001-of-00003.gguf`);
  expect(found.files).toHaveLength(3);
  expect(found.sizeBytes).toBe(3 * (small.length + TENSOR_BYTES));
  expect(found.gguf?.weightsBytes).toBe(3 * TENSOR_BYTES);
});

test("the token is sent to the first server and not to the target of a redirect", async () => {
  const storage = await serveModel(ranged(small, small.length + TENSOR_BYTES));
  const hub = await serveModel(
    (_, response) =>
      void response.writeHead(302, { location: `${storage.url}/blob`, "x-linked-etag": '"linked"' }).end(),
  );
  const found = await inspectNow(`${hub.url}/m.gguf`, { credentials: { token: "t" } });
  expect(found.revision).toBe('"linked"');
  expect(hub.requests[0]?.headers.authorization).toBe("Bearer t");
  expect(storage.requests[0]?.headers.authorization).toBeUndefined();
});

test("a repository with one model is resolved to that model at one commit", async () => {
  const sha256 = "a".repeat(64);
  const siblings = [
    { rfilename: "README.md", size: 3 },
    { rfilename: "tiny-Q8_0.gguf", size: 1, lfs: { sha256, size: small.length + TENSOR_BYTES } },
  ];
  const hub = await serveModel((request, response) => {
    if (request.url?.startsWith("/api/"))
      return void response.end(JSON.stringify({ sha: "c0ffee", siblings }));
    ranged(small, small.length + TENSOR_BYTES)(request, response);
  });
  const found = await inspectNow("hf://org/repo", {}, { hfEndpoint: hub.url });
  expect(found).toMatchObject({
    files: ["tiny-Q8_0.gguf"],
    revision: "c0ffee",
    sha256,
    sizeBytes: small.length + TENSOR_BYTES,
  });
  expect(hub.requests.map(({ url }) => url)).toEqual([
    "/api/models/org/repo/revision/main?blobs=true",
    "/org/repo/resolve/c0ffee/tiny-Q8_0.gguf",
  ]);
});

test("missing and ambiguous repositories and other formats are reported with their own results", async () => {
  const listing = {
    sha: "1",
    siblings: [
      { rfilename: "model.safetensors", size: 70 },
      { rfilename: "config.json", size: 7 },
    ],
  };
  const responses: Record<string, unknown> = {
    "org/two": { siblings: [{ rfilename: "a.gguf" }, { rfilename: "b.gguf" }] },
    "org/none": { siblings: [{ rfilename: "README.md" }] },
    "org/safe": listing,
    "org/odd": "<html>",
    "org/large": listing,
    "org/refused": listing,
  };
  const config = {
    "/org/safe/resolve/1/config.json": '{"quantization_config":{"quant_method":"fp8"}}',
    "/org/large/resolve/1/config.json": `{"quantization_config":{"quant_method":"fp8"}}${" ".repeat(4 << 20)}`,
  };
  const hub = await serveModel((request, response) => {
    const file = (config as Record<string, string>)[request.url ?? ""];
    if (file !== undefined) return void response.end(file);
    const answer = responses[/^\/api\/models\/([^/]+\/[^/]+)\//.exec(request.url ?? "")?.[1] ?? ""];
    if (answer === undefined) response.writeHead(404).end();
    else response.end(typeof answer === "string" ? answer : JSON.stringify(answer));
  });
  const settings = { hfEndpoint: hub.url };
  expect(await failureOf(inspectNow("hf://org/two", {}, settings))).toMatchObject({
    code: "SourceAmbiguous",
  });
  expect(await failureOf(inspectNow("hf://org/none", {}, settings))).toMatchObject({
    code: "SourceIsNotAModel",
  });
  expect(await failureOf(inspectNow("hf://org/missing", {}, settings))).toMatchObject({
    code: "SourceNotFound",
  });
  expect(await failureOf(inspectNow("hf://org/odd", {}, settings))).toMatchObject({ code: "SourceRefused" });
  const safe = { format: "safetensors", sizeBytes: 77, gguf: undefined };
  expect(await inspectNow("hf://org/safe", {}, settings)).toMatchObject({ ...safe, quantization: "fp8" });
  for (const source of ["hf://org/refused", "hf://org/large"])
    expect(await inspectNow(source, {}, settings)).toMatchObject({ ...safe, quantization: undefined });
});

test("a projector is read too, and its size is included in the total", async () => {
  const server = await serveModel((request, response) => {
    if (request.url === "/dir/proj.gguf" || request.url === "/dir/m.gguf")
      ranged(small, small.length + TENSOR_BYTES)(request, response);
    else response.writeHead(404).end();
  });
  const found = await inspectNow(`${server.url}/dir/m.gguf`, { selector: { mmproj: "proj.gguf" } });
  expect(found).toMatchObject({
    sizeBytes: 2 * (small.length + TENSOR_BYTES),
    files: ["m.gguf"],
    gguf: { weightsBytes: TENSOR_BYTES },
  });
  expect(
    await failureOf(inspectNow(`${server.url}/dir/m.gguf`, { selector: { mmproj: "none.gguf" } })),
  ).toMatchObject({ code: "SourceNotFound" });
});

test("a shared time limit ends all requests, regardless of their own limits", async () => {
  const server = await serveModel(ranged(small, small.length + TENSOR_BYTES));
  const { signal } = new AbortController();
  const endless = withinMs(300, signal, async (within) => {
    for (;;) {
      within.throwIfAborted();
      await inspectNow(`${server.url}/m.gguf`);
    }
  });
  expect(await failureOf(endless)).toMatchObject({ code: "SourceStalled", isTransient: true });
  const stop = AbortSignal.abort(new Error("stopped"));
  await expect(withinMs(60_000, stop, async (within) => within.throwIfAborted())).rejects.toThrow("stopped");
});
