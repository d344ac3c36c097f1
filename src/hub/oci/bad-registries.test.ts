/** Invalid registry responses, and redirects and token servers that are refused. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import {
  type Handler,
  headerBytes,
  type ModelServer,
  ranged,
  serveModel,
  TENSOR_BYTES,
} from "../../../test/fixtures/model-server.ts";
import { failureOf, inspectNow } from "../fixtures/inspect.ts";

const header = headerBytes(10);
const hex = createHash("sha256").update(header).digest("hex");
const TITLE = "org.opencontainers.image.title";

const layer = (title: string | undefined) => ({
  mediaType: "application/octet-stream",
  digest: `sha256:${hex}`,
  size: header.length + TENSOR_BYTES,
  annotations: title === undefined ? undefined : { [TITLE]: title },
});
const manifest = (...titles: (string | undefined)[]) =>
  JSON.stringify({ schemaVersion: 2, layers: titles.map(layer) });

const respond =
  (status: number, body: string, headers: Record<string, string | string[]> = {}): Handler =>
  (_, response) =>
    void response.writeHead(status, headers).end(body);
const challenge = (text: string) => respond(401, "{}", { "www-authenticate": text });

/** A registry with a GGUF as blob, whose manifest requests are answered by `handler`. */
function registry(handler: Handler, blob: Handler = ranged(header, header.length + TENSOR_BYTES)) {
  return serveModel((request, response) =>
    (request.url?.includes("/manifests/") === true ? handler : blob)(request, response),
  );
}

const sourceAt = ({ url }: ModelServer, reference = ":v1") =>
  `oci://${new URL(url).host}/org/model${reference}`;

test.each<[string, Handler, string, RegExp, string?]>([
  ["404", respond(404, "{}"), "SourceNotFound", /no such repository, tag or digest/],
  ["403", respond(403, "{}"), "SourceForbidden", /answered 403/],
  ["429", respond(429, "{}"), "SourceUnavailable", /answered 429/],
  ["401 without a challenge", respond(401, "{}"), "SourceUnauthorized", /answered 401/],
  ["401 of an unknown kind", challenge("Negotiate"), "SourceUnauthorized", /answered 401/],
  ["a challenge for a user name", challenge('Basic realm="r"'), "SourceUnauthorized", /answered 401/],
  ["no realm", challenge('Bearer service="s"'), "SourceRefused", /without naming the token server/],
  ["a realm that is a file", challenge('Bearer realm="file:///etc/passwd"'), "SourceNotAllowed", /file:/],
  [
    "a realm in a private network",
    challenge('Bearer realm="http://10.0.0.1/token"'),
    "SourceNotAllowed",
    /10\.0\.0\.1 is a loopback, private or reserved address/,
  ],
  [
    "a realm at the metadata address",
    challenge('Bearer realm="http://169.254.169.254/latest",service="s"'),
    "SourceNotAllowed",
    /169\.254/,
  ],
  [
    "a redirect into a private network",
    respond(307, "", { location: "http://192.168.1.1/v2/" }),
    "SourceNotAllowed",
    /192\.168\.1\.1/,
  ],
  ["a web page", respond(200, "<!doctype html>"), "SourceRefused", /not a manifest/],
  [
    "a manifest that is too large",
    respond(200, " ".repeat((4 << 20) + 1)),
    "SourceRefused",
    /more than 4194304/,
  ],
  [
    "a manifest that does not match its digest",
    respond(200, manifest("m.gguf")),
    "ChecksumMismatch",
    /not sha256:0/,
    "0",
  ],
  [
    "a manifest that does not match its digest header",
    respond(200, manifest("m.gguf"), { "docker-content-digest": `sha256:${"1".repeat(64)}` }),
    "ChecksumMismatch",
    /not sha256:1/,
  ],
  ["10,000 layers", respond(200, manifest(...Array(10_000).fill("m.gguf"))), "SourceRefused", /10000 layers/],
  ["no layers", respond(200, manifest()), "SourceIsNotAModel", /no \.gguf file/],
  ["a layer without a title", respond(200, manifest(undefined)), "SourceNotSupported", /has no name/],
  [
    "a title that points outside the folder",
    respond(200, manifest("../../m.gguf")),
    "FileNameNotAllowed",
    /\.\./,
  ],
  ["an absolute title", respond(200, manifest("/etc/m.gguf")), "FileNameNotAllowed", /etc/],
  ["a title with a control character", respond(200, manifest("a\u0007.gguf")), "FileNameNotAllowed", /valid/],
  ["two models", respond(200, manifest("a.gguf", "b.gguf")), "SourceAmbiguous", /a\.gguf, b\.gguf/],
  ["an empty index", respond(200, '{"manifests":[]}'), "SourceIsNotAModel", /no manifest of a model/],
  [
    "an index of itself",
    respond(200, JSON.stringify({ manifests: [{ digest: "md5:1", size: 1 }] })),
    "SourceRefused",
    /not a sha256/,
  ],
])(
  "a registry that answers with %s is refused with its own code",
  async (_, handler, code, message, digest) => {
    const server = await registry(handler);
    const reference = digest === undefined ? ":v1" : `@sha256:${digest.repeat(64)}`;
    expect(await failureOf(inspectNow(sourceAt(server, reference)))).toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  },
);

test("a blob may be on another host, but not in a private network and not behind a second token flow", async () => {
  const good = respond(200, manifest("m.gguf"));
  const to = (location: string) => registry(good, respond(307, "", { location }));
  const inside = await to("http://10.1.2.3/blob");
  expect(await failureOf(inspectNow(sourceAt(inside)))).toMatchObject({ code: "SourceNotAllowed" });
  const storage = await serveModel(challenge('Bearer realm="http://127.0.0.1:1/"'));
  const elsewhere = await to(`${storage.url}/blob`);
  expect(await failureOf(inspectNow(sourceAt(elsewhere)))).toMatchObject({ code: "SourceUnauthorized" });
  expect(storage.requests).toHaveLength(1);
});

test.each<[string, (issued: number) => string, string, RegExp, number]>([
  ["no token", () => "{}", "SourceRefused", /without a token/, 1],
  ["a token that cannot be sent", () => '{"token":"a\\nb"}', "SourceRefused", /without a token/, 1],
  ["the same token each time", () => '{"token":"same"}', "SourceUnauthorized", /answered 401/, 2],
  [
    "tokens that the registry does not take",
    (n) => `{"token":"t${n}"}`,
    "SourceUnauthorized",
    /answered 401/,
    2,
  ],
])("a token server that gives %s ends", async (_, tokenOf, code, message, issued) => {
  const asked: IncomingMessage[] = [];
  const tokens = await serveModel((request, response) => {
    asked.push(request);
    response.end(tokenOf(asked.length));
  });
  const server = await registry(
    challenge(`Bearer realm="${tokens.url}/token",scope="repository:other:push"`),
  );
  expect(await failureOf(inspectNow(sourceAt(server)))).toMatchObject({
    code,
    message: expect.stringMatching(message),
  });
  expect(asked).toHaveLength(issued);
  expect(asked[0]?.url).toBe("/token?scope=repository%3Aorg%2Fmodel%3Apull");
});

test("a token that expires during a read is replaced, and is sent to the registry only", async () => {
  let valid = 0;
  const tokens = await serveModel(
    (_, response) => void response.end(JSON.stringify({ access_token: `t${++valid}` })),
  );
  const storage = await serveModel(ranged(header, header.length + TENSOR_BYTES));
  const guarded =
    (handler: Handler): Handler =>
    (request, response) =>
      request.headers.authorization === `Bearer t${valid}` && valid > 0
        ? handler(request, response)
        : challenge(`Bearer realm="${tokens.url}/t"`)(request, response);
  const server = await registry(
    guarded((request, response) => {
      respond(200, manifest("m.gguf"))(request, response);
      valid += 1;
    }),
    guarded(respond(307, "", { location: `${storage.url}/blob` })),
  );
  const found = await inspectNow(sourceAt(server), { credentials: { username: "u", password: "p" } });
  expect(found).toMatchObject({
    files: ["m.gguf"],
    sha256: hex,
    revision: expect.stringMatching(/^sha256:/),
  });
  expect(tokens.requests).toHaveLength(2);
  expect(tokens.requests[0]?.headers.authorization).toBe(`Basic ${Buffer.from("u:p").toString("base64")}`);
  expect(storage.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
});
