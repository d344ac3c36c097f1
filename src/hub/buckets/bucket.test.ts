/** Simulated bucket servers of S3, Google Cloud Storage and OSS, with their faults. */
import { createVerify, generateKeyPairSync } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import fc from "fast-check";
import { expect, test } from "vitest";
import { headerBytes, ranged, serveModel, TENSOR_BYTES } from "../../../test/fixtures/model-server.ts";
import { failureOf, inspectNow } from "../fixtures/inspect.ts";
import { parseError, parsePage } from "./bucket.ts";
import { openS3 } from "./s3.ts";

const header = headerBytes(10);
const model = ranged(header, header.length + TENSOR_BYTES);
const good: Respond = (request, response) =>
  request.method === "HEAD" ? response.end() : model(request, response);
const keys = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "s3cret", AWS_REGION: "us-east-1" };

type Respond = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Lists these keys in pages of `pageSize`, and serves the same model for each key; `before` may respond instead. */
async function serveBucket(names: readonly string[], before: Respond = () => undefined, pageSize = 1000) {
  const server = await serveModel((request, response) => {
    before(request, response);
    if (response.writableEnded) return;
    const { searchParams } = new URL(request.url ?? "/", "http://bucket");
    if (!searchParams.has("list-type")) return void good(request, response);
    const from = Number(searchParams.get("continuation-token") ?? 0);
    response.end(
      listOf(names.slice(from, from + pageSize), from + pageSize < names.length && from + pageSize),
    );
  });
  const inspect = (source: string, more: Record<string, string> = {}, selector = {}) =>
    inspectNow(source, { credentials: { ...keys, AWS_ENDPOINT_URL: server.url, ...more }, selector });
  return { ...server, inspect };
}

function listOf(names: readonly string[], next: number | false): string {
  const entries = names.map(
    (name) => `<Contents><Key>${encodeURIComponent(name)}</Key><Size>9</Size></Contents>`,
  );
  const more = next === false ? "" : `<NextContinuationToken>${next}</NextContinuationToken>`;
  const head = `<EncodingType>url</EncodingType><IsTruncated>${next !== false}</IsTruncated>${more}`;
  return `<?xml version="1.0"?><ListBucketResult>${head}${entries.join("")}</ListBucketResult>`;
}

const refuse =
  (status: number, code: string, headers: Record<string, string> = {}, detail = ""): Respond =>
  (_, response) =>
    response
      .writeHead(status, headers)
      .end(`<Error><Code>${code}</Code><Message>it &lt;says&gt; so</Message>${detail}</Error>`);

/** Refuses each request for which `isGood` is false, as a server that knows the correct region or time does. */
const unless =
  (isGood: (request: IncomingMessage) => boolean, respond: Respond): Respond =>
  (request, response) =>
    isGood(request) ? undefined : respond(request, response);

const scopeOf = ({ headers }: IncomingMessage) => headers.authorization?.split("/")[2];

test("a list of ten thousand files is read page by page", async () => {
  const names = Array.from({ length: 10_000 }, (_, index) => `dir/notes-${index}.md`);
  const bucket = await serveBucket([...names, "dir/model.gguf"]);
  expect(await bucket.inspect("s3://b/dir")).toMatchObject({ files: ["model.gguf"] });
  expect(bucket.requests.filter(({ url }) => url?.includes("list-type"))).toHaveLength(11);
});

test.each([0, 1])("an endless list of pages with %i files is refused after 1,000 pages", async (files) => {
  let pages = 0;
  const bucket = await serveBucket([], ({ url }, response) => {
    if (!url?.includes("list-type")) return;
    pages += 1;
    response.end(listOf(files === 0 ? [] : [`dir/${pages}.gguf`], pages));
  });
  expect(await failureOf(bucket.inspect("s3://b/dir"))).toMatchObject({
    code: "SourceRefused",
    message: "s3://b/dir is listed in more than 1000 pages",
  });
  expect(bucket.requests).toHaveLength(1_000);
});

test.each([
  ["in its header", { "x-amz-bucket-region": "eu-west-1" }, "", 301],
  ["in its header, with another status", { "x-amz-bucket-region": "eu-west-1" }, "", 400],
  ["in its text", {}, "<Region>eu-west-1</Region>", 400],
])(
  "a bucket in another region, which the server names %s, is read in that region",
  async (_, headers, detail, status) => {
    const wrong = refuse(status, "AuthorizationHeaderMalformed", headers, detail);
    const bucket = await serveBucket(
      ["dir/model.gguf"],
      unless((request) => scopeOf(request) === "eu-west-1", wrong),
    );
    for (const source of ["s3://b/dir", "s3://b/dir/model.gguf"])
      expect(await bucket.inspect(source)).toMatchObject({ files: ["model.gguf"] });
  },
);

test("a region that the server changes with every response is an error", async () => {
  let turn = 0;
  const bucket = await serveBucket([], (request, response) => {
    turn += 1;
    refuse(400, "AuthorizationHeaderMalformed", { "x-amz-bucket-region": `r-${turn}` })(request, response);
  });
  expect(await failureOf(bucket.inspect("s3://b/dir"))).toMatchObject({ code: "SourceRefused" });
  expect(bucket.requests).toHaveLength(3);
});

test("the time in signatures is corrected once to the server's clock", async () => {
  const date = new Date(Date.now() - 3_600_000);
  const stamp = date.toISOString().replace(/[:-]/g, "").slice(0, 11);
  const skewed = refuse(403, "RequestTimeTooSkewed", { date: date.toUTCString() });
  const right = (request: IncomingMessage) => String(request.headers["x-amz-date"]).startsWith(stamp);
  const bucket = await serveBucket(["dir/model.gguf"], unless(right, skewed));
  expect(await bucket.inspect("s3://b/dir")).toMatchObject({ files: ["model.gguf"] });
  const never = await serveBucket([], skewed);
  expect(await failureOf(never.inspect("s3://b/dir"))).toMatchObject({
    code: "SourceUnauthorized",
    message: "s3://b/dir: the server answered RequestTimeTooSkewed",
  });
});

const privately = { AWS_SESSION_TOKEN: "session" };
test.each([
  [["dir/a.gguf", "dir/../b.gguf"], {}, "SourceAmbiguous"],
  [["dir/x/../b.gguf"], {}, "FileNameNotAllowed"],
  [["dir//etc/passwd.gguf"], {}, "FileNameNotAllowed"],
  [["dir/a\\b.gguf"], {}, "FileNameNotAllowed"],
  [["dir/A.safetensors", "dir/a.safetensors"], {}, "FileNameNotAllowed"],
  [["other/a.gguf"], {}, "SourceNotFound"],
  [["dir/a.gguf"], { files: ["*.bin"] }, "SourceNotFound"],
  [["dir/a.gguf", "dir/b.gguf"], { files: ["*.gguf"] }, "SourceAmbiguous"],
])("a bucket with %j, requested for %j, is refused: %s", async (names, selector, code) => {
  const bucket = await serveBucket(names);
  expect(await failureOf(bucket.inspect("s3://b/dir", privately, selector))).toMatchObject({ code });
});

test.each([
  ["InvalidAccessKeyId", 403, {}, "SourceUnauthorized", false],
  ["SignatureDoesNotMatch", 403, {}, "SourceUnauthorized", false],
  ["ExpiredToken", 400, {}, "SourceUnauthorized", false],
  ["AccessDenied", 403, {}, "SourceForbidden", false],
  ["AccessDenied", 403, { AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" }, "SourceUnauthorized", false],
  ["NoSuchBucket", 404, {}, "SourceNotFound", false],
  ["SlowDown", 503, {}, "SourceUnavailable", true],
  ["Nonsense", 418, {}, "SourceRefused", false],
])("%s with status %d has its own code", async (name, status, credentials, code, isTransient) => {
  const bucket = await serveBucket([], refuse(status, name));
  for (const source of ["s3://b/dir", "s3://b/dir/model.gguf"]) {
    const failure = await failureOf(bucket.inspect(source, credentials));
    expect(failure).toMatchObject({ code, isTransient });
    expect(failure.message).not.toContain("s3cret");
  }
});

test.each(["Two words", "https://page.example", "c0de", "x".repeat(65), "", "&lt;Code&gt;"])(
  "a server's error code that is not a single word is not quoted, and neither is its message: %j",
  async (code) => {
    const bucket = await serveBucket([], refuse(403, code));
    const { message } = await failureOf(bucket.inspect("s3://b/dir"));
    expect(message).toBe(`${bucket.url}/b/ answered 403`);
  },
);

test("every response of a server is read as a page, an error with a code, or neither", () => {
  const tag = fc.constantFrom("Error", "Code", "Message", "ListBucketResult", "Contents", "Key", "Size");
  const piece = fc.oneof(
    fc.string(),
    tag.map((name) => `<${name}>`),
    tag.map((name) => `</${name}>`),
    fc.constantFrom("&#x110000;", "&#9999999;", "&lt;", "&amp;", "AccessDenied", "12", "%zz"),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const xml = pieces.join("");
      expect(parseError(xml)?.code ?? "None").toMatch(/^[A-Za-z]{1,64}$/);
      for (const { key, sizeBytes } of parsePage(xml)?.objects ?? []) {
        expect(typeof key).toBe("string");
        expect(Number.isSafeInteger(sizeBytes ?? 0)).toBe(true);
      }
    }),
  );
});

test.each(["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/m.gguf"])(
  "a redirect to %s is refused, and only requests to the bucket are signed",
  async (location) => {
    const bucket = await serveBucket([], (_, response) => response.writeHead(302, { location }).end());
    for (const source of ["s3://b/dir", "s3://b/dir/model.gguf"])
      expect(await failureOf(bucket.inspect(source))).toMatchObject({ code: "SourceNotAllowed" });
    const elsewhere = await serveModel(good);
    const to = { location: `${elsewhere.url}/m.gguf` };
    const moved = await serveBucket([], (_, response) => response.writeHead(302, to).end());
    await moved.inspect("s3://b/dir/model.gguf", privately);
    expect(elsewhere.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
    expect(moved.requests[0]?.headers["x-amz-security-token"]).toBe("session");
  },
);

test("an endpoint in a private network is refused if it comes from a Secret", async () => {
  const credentials = { AWS_ENDPOINT_URL: "http://169.254.169.254" };
  expect(await failureOf(inspectNow("s3://b/dir", { credentials }))).toMatchObject({
    code: "SourceNotAllowed",
  });
});

test.each([
  ["b", {}, "https://b.s3.us-east-1.amazonaws.com/"],
  ["b", { AWS_REGION: "cn-north-1" }, "https://b.s3.cn-north-1.amazonaws.com.cn/"],
  ["a.b", { AWS_DEFAULT_REGION: "eu-west-1" }, "https://s3.eu-west-1.amazonaws.com/a.b/"],
  ["b", { AWS_ENDPOINT_URL: "minio.example.com:9000" }, "https://minio.example.com:9000/b/"],
  ["b", { AWS_ENDPOINT_URL_S3: "http://h/base/", AWS_S3_ADDRESSING_STYLE: "virtual" }, "http://b.h/base/"],
])("the bucket %s with %j is at %s", (bucket, credentials, address) => {
  const limits = { connectMs: 1, stallMs: 1, maxRedirects: 1 };
  const rules = { allowLoopback: false, allowPrivate: false, ...limits };
  const source = openS3(
    { kind: "s3", bucket, key: "m.gguf" },
    { rules, hfEndpoint: "https://h", credentials },
  );
  expect(source.locate("m.gguf", undefined).href).toBe(`${address}m.gguf`);
});

test("gs:// signs with HMAC keys as Google's S3-compatible API requires", async () => {
  const bucket = await serveBucket(["dir/model.gguf"]);
  const credentials = {
    GS_ACCESS_KEY_ID: "GOOG1",
    GS_SECRET_ACCESS_KEY: "s3cret",
    STORAGE_EMULATOR_HOST: bucket.url,
  };
  expect(await inspectNow("gs://b/dir", { credentials })).toMatchObject({ files: ["model.gguf"] });
  expect(bucket.requests[0]?.headers.authorization).toMatch(
    /^AWS4-HMAC-SHA256 Credential=GOOG1\/\d{8}\/auto\/s3\//,
  );
});

test("gs:// exchanges the key of a service account for a token, and replaces a refused token once", async () => {
  const pair = generateKeyPairSync("rsa", { modulusLength: 2048 });
  let granted = 0;
  const tokens = await serveModel((request, response) => void grant(request, response));
  const grant = async (request: IncomingMessage, response: ServerResponse) => {
    const text = Buffer.concat(await request.toArray()).toString();
    const assertion = new URLSearchParams(text).get("assertion") ?? "";
    const [jwtHeader = "", claims = "", signature = ""] = assertion.split(".");
    const verifier = createVerify("RSA-SHA256").update(`${jwtHeader}.${claims}`);
    const { iss, aud, exp, iat, scope } = JSON.parse(Buffer.from(claims, "base64url").toString());
    const isMeant = iss === "me@p" && aud === `${tokens.url}/token` && exp === iat + 3600;
    const isRight =
      isMeant && /read_only$/.test(scope) && verifier.verify(pair.publicKey, signature, "base64url");
    granted += 1;
    response
      .writeHead(isRight ? 200 : 400)
      .end(JSON.stringify({ access_token: `t${granted}`, expires_in: 3600 }));
  };
  const bucket = await serveBucket(["dir/model.gguf"], (request, response) => {
    if (request.headers.authorization !== "Bearer t2") response.writeHead(401).end();
  });
  const account = (key: string) =>
    JSON.stringify({
      type: "service_account",
      client_email: "me@p",
      private_key: key,
      token_uri: `${tokens.url}/token`,
    });
  const credentials = (json: string) => ({
    STORAGE_EMULATOR_HOST: bucket.url,
    "gcloud-application-credentials.json": json,
  });
  const pem = pair.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const inspect = (json: string) => inspectNow("gs://b/dir", { credentials: credentials(json) });
  expect(await inspect(account(pem))).toMatchObject({ files: ["model.gguf"] });
  expect(granted).toBe(2);
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const forged = other.export({ type: "pkcs8", format: "pem" }).toString();
  expect(await failureOf(inspect(account(forged)))).toMatchObject({ code: "SourceUnauthorized" });
  for (const bad of ["{}", account("no key")])
    expect(await failureOf(inspect(bad))).toMatchObject({ code: "SourceSecretInvalid" });
});

test("oss:// signs for the region of its endpoint or for OSS_REGION", async () => {
  const bucket = await serveBucket(["dir/model.gguf"]);
  const credentials = {
    OSS_ACCESS_KEY_ID: "LTAI",
    OSS_ACCESS_KEY_SECRET: "s3cret",
    OSS_SESSION_TOKEN: "sts",
    OSS_ENDPOINT: bucket.url,
    OSS_REGION: "oss-cn-beijing",
  };
  expect(await inspectNow("oss://b/dir", { credentials })).toMatchObject({ files: ["model.gguf"] });
  expect(bucket.requests[0]?.headers).toMatchObject({
    authorization: expect.stringMatching(/^OSS4-HMAC-SHA256 Credential=LTAI\/\d{8}\/cn-beijing\/oss\//),
    "x-oss-security-token": "sts",
  });
});
