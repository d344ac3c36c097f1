/** A simulated server with ModelScope's API. */
import { expect, test } from "vitest";
import { headerBytes, ranged, serveModel, TENSOR_BYTES } from "../../../test/fixtures/model-server.ts";
import { failureOf, inspectNow } from "../fixtures/inspect.ts";

const header = headerBytes(10);
const good = ranged(header, header.length + TENSOR_BYTES);
const sha256 = "A".repeat(64);

const files = [
  { Path: "q", Type: "tree", Size: 0, Sha256: "" },
  { Path: "README.md", Type: "blob", Size: 3, Sha256: "" },
  { Path: "q/model Q4.gguf", Type: "blob", Size: header.length + TENSOR_BYTES, Sha256: sha256 },
];

async function serveHub(
  answer: unknown = { Code: 200, Success: true, Data: { Files: files } },
  status = 200,
) {
  const hub = await serveModel((request, response) => {
    if (!request.url?.startsWith("/api/")) return good(request, response);
    response.writeHead(status).end(typeof answer === "string" ? answer : JSON.stringify(answer));
  });
  const inspect = (source: string, more = {}) =>
    inspectNow(source, { credentials: { MODELSCOPE_ENDPOINT: hub.url, ...more } });
  return { ...hub, inspect };
}

test("a repository is listed at its revision, and files are read at the URLs that the hub resolves", async () => {
  const hub = await serveHub();
  expect(await hub.inspect("modelscope://org/repo@v1.2")).toMatchObject({
    files: ["q/model Q4.gguf"],
    sha256: sha256.toLowerCase(),
  });
  expect(hub.requests.map(({ url }) => url)).toEqual([
    "/api/v1/models/org/repo/repo/files?Revision=v1.2&Recursive=true",
    "/models/org/repo/resolve/v1.2/q/model%20Q4.gguf",
  ]);
  await hub.inspect("modelscope://org/repo/q/model%20Q4.gguf");
  expect(hub.requests.at(-1)?.url).toBe("/models/org/repo/resolve/master/q/model%20Q4.gguf");
  expect(hub.requests[0]?.headers).not.toHaveProperty("cookie");
});

test("the token is sent in the same header and cookie as by the hub's own client", async () => {
  const hub = await serveHub();
  await hub.inspect("modelscope://org/repo", { MODELSCOPE_API_TOKEN: "ms-1" });
  for (const { headers } of hub.requests)
    expect(headers).toMatchObject({ authorization: "Bearer ms-1", cookie: "m_session_id=ms-1" });
});

test.each([
  [
    { Code: 10_010_205_001, Message: "no such model", Success: false },
    200,
    "SourceNotFound",
    /answered with code 10010205001/,
  ],
  [{ Code: 404, Message: "record not found" }, 404, "SourceNotFound", /answered 404/],
  [{}, 401, "SourceUnauthorized", /401/],
  [{}, 403, "SourceForbidden", /403/],
  [{}, 502, "SourceUnavailable", /502/],
  ["<html>", 200, "SourceRefused", /does not answer like the ModelScope API/],
  [{ Code: 200, Data: { Files: [] } }, 200, "SourceIsNotAModel", /no .gguf file/],
  [{ Code: 200, Data: { Files: [{ Path: "../m.gguf" }] } }, 200, "FileNameNotAllowed", /not a valid/],
])("the response %j with status %d has its own code", async (response, status, code, message) => {
  const hub = await serveHub(response, status);
  const failure = await failureOf(hub.inspect("modelscope://org/repo"));
  expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
});
