/** Responses of hubs, buckets, registries and proxies are read up to a limit, failures have codes, and no message quotes a body. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MetalbridgeError } from "../api/errors.ts";
import { isRemote, parseSource } from "../models/source/parse.ts";
import { SourceFailure } from "./failure.ts";
import { openSource } from "./inspect/open.ts";

const MARK = "only-inside-this-network";
const rules = { allowLoopback: true, allowPrivate: false, maxRedirects: 5, stallMs: 5_000, connectMs: 5_000 };

interface Scripted {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

let scripted: Scripted = { status: 200, headers: {}, body: "" };
let asked = 0;
let host = "";
const server = createServer((_, response) => {
  asked += 1;
  const { "content-length": length, ...headers } = scripted.headers;
  response.writeHead(scripted.status, {
    ...headers,
    ...(length === undefined ? {} : { "x-length": length }),
  });
  response.end(scripted.body);
});
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());

const sources = (at: string): readonly string[] => [
  "hf://org/repo",
  "modelscope://org/repo",
  "s3://bucket/folder",
  "gs://bucket/folder",
  "oss://bucket/folder",
  `oci://${at}/org/model:v1`,
  `ollama://${at}/org/model:v1`,
];
const json = fc.json({ maxDepth: 4 }).map((text) => text.replace(/"([a-zA-Z]{2,})"/g, `"${MARK}$1"`));
const shapes = fc.constantFrom(
  `{"siblings":[{"rfilename":"${MARK}"}],"sha":"../../x"}`,
  `{"Code":200,"Data":{"Files":[{"Path":"../${MARK}","Size":-1}]}}`,
  `{"Code":404,"Message":"${MARK}"}`,
  `<ListBucketResult><Contents><Key>${MARK}</Key></Contents></ListBucketResult>`,
  `{"schemaVersion":2,"manifests":[{"digest":"sha256:${MARK}","size":1}]}`,
  `{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"x","size":1e99}]}`,
);
const scripts = fc.record({
  status: fc.constantFrom(200, 204, 206, 301, 302, 307, 400, 401, 403, 404, 416, 429, 500, 503),
  headers: fc.record(
    {
      location: fc.constantFrom("/", "/again", "http://169.254.169.254/", "file:///etc/passwd", "::"),
      "www-authenticate": fc.constantFrom(
        'Bearer realm="http://169.254.169.254/token"',
        'Bearer realm="file:///x"',
        `Basic realm="${MARK}"`,
        "Bearer",
      ),
      "retry-after": fc.constantFrom("0", "999999999", "-1", "x"),
      "content-encoding": fc.constantFrom("gzip", "identity"),
      "content-type": fc.constantFrom("text/html", "application/json"),
    },
    { requiredKeys: [] },
  ),
  body: fc.oneof(
    json,
    shapes,
    fc.string({ maxLength: 200 }).map((text) => `${MARK}${text}`),
  ),
});

test("a list is read or refused with a code within few requests, and no message quotes a body", async () => {
  await fc.assert(
    fc.asyncProperty(scripts, fc.nat({ max: 6 }), async (script, index) => {
      scripted = script;
      asked = 0;
      const source = parseSource(sources(host)[index] ?? "");
      if (!isRemote(source)) throw new Error("not remote");
      const at = `http://${host}`;
      const endpoints = { AWS_ENDPOINT_URL: at, STORAGE_EMULATOR_HOST: at, OSS_ENDPOINT: at };
      const credentials = { ...endpoints, MODELSCOPE_ENDPOINT: at, username: "u", password: "p" };
      const opened = openSource(source, { rules, hfEndpoint: at, credentials });
      const found = await opened.list(AbortSignal.timeout(20_000)).catch((error: unknown) => error);
      expect(asked).toBeLessThanOrEqual(20);
      if (!(found instanceof Error)) return;
      expect(found instanceof SourceFailure || found instanceof MetalbridgeError).toBe(true);
      const { message } = found instanceof SourceFailure ? found.error : found;
      expect(message).not.toContain(MARK);
      expect(message.length).toBeLessThan(1_000);
    }),
    { numRuns: 300 },
  );
});

test.each([
  ["hf://org/repo", 32 << 20],
  ["modelscope://org/repo", 32 << 20],
  ["s3://bucket/folder", 8 << 20],
  ["oci", 4 << 20],
])("a list of %s that is longer than %i bytes is not read to its end", async (name, limit) => {
  scripted = { status: 200, headers: {}, body: `{"x":"${"a".repeat(limit)}"}` };
  const source = parseSource(name === "oci" ? `oci://${host}/org/model:v1` : name);
  if (!isRemote(source)) throw new Error("not remote");
  const at = `http://${host}`;
  const credentials = { AWS_ENDPOINT_URL: at, MODELSCOPE_ENDPOINT: at };
  const opened = openSource(source, { rules, hfEndpoint: at, credentials });
  await expect(opened.list(AbortSignal.timeout(20_000))).rejects.toMatchObject({
    error: { code: "SourceRefused", message: expect.stringContaining(`more than ${limit} bytes`) },
  });
});

test.each<[string, (count: number) => object]>([
  [
    "hf://org/repo",
    (count) => ({ siblings: Array.from({ length: count }, (_, at) => ({ rfilename: `${at}` })) }),
  ],
  [
    "modelscope://org/repo",
    (count) => ({
      Code: 200,
      Data: { Files: Array.from({ length: count }, (_, at) => ({ Path: `${at}` })) },
    }),
  ],
])("a list of %s has up to 20,000 files", async (name, listOf) => {
  const source = parseSource(name);
  if (!isRemote(source)) throw new Error("not remote");
  const at = `http://${host}`;
  const opened = openSource(source, { rules, hfEndpoint: at, credentials: { MODELSCOPE_ENDPOINT: at } });
  for (const count of [19_999, 20_000, 20_001]) {
    scripted = { status: 200, headers: {}, body: JSON.stringify(listOf(count)) };
    const list = opened.list(AbortSignal.timeout(20_000));
    if (count > 20_000) await expect(list).rejects.toMatchObject({ error: { code: "SourceRefused" } });
    else expect((await list)?.files).toHaveLength(count);
  }
});
