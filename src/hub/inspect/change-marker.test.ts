import type { IncomingMessage, ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { serveModel } from "../../../test/fixtures/model-server.ts";
import { isRemote, parseSource } from "../../models/source/parse.ts";
import { createMarkSource } from "./inspect.ts";

const mark = (text: string, hfEndpoint = "http://127.0.0.1:9") => {
  const source = parseSource(text);
  if (!isRemote(source)) throw new Error(`${text} is not remote`);
  const limits = { stallMs: 10_000, connectMs: 10_000, maxRedirects: 10 };
  const rules = { allowLoopback: true, allowPrivate: false, ...limits };
  const read = createMarkSource({ hfEndpoint, rules, inspectMs: 60_000, maxHeaderBytes: 1 });
  return read({ source, selector: { mmproj: undefined }, signal: new AbortController().signal });
};

test("the change marker of a file is derived from its ETag and size, or from Last-Modified, without requesting content", async () => {
  let headers: Record<string, string> = {};
  const server = await serveModel((_, response) => void response.writeHead(200, headers).end());
  const markOf = (said: Record<string, string>) => {
    headers = said;
    return mark(`${server.url}/m.gguf`);
  };
  const first = await markOf({ etag: '"1"', "content-length": "5", "last-modified": "a" });
  expect(first).toEqual({ changeMarker: expect.stringMatching(/^[0-9a-f]{32}$/) });
  expect(await markOf({ etag: '"1"', "content-length": "5", "last-modified": "b" })).toEqual(first);
  const others = [
    await markOf({ etag: '"2"', "content-length": "5" }),
    await markOf({ etag: '"1"', "content-length": "6" }),
    await markOf({ "content-length": "5", "last-modified": "a" }),
    await markOf({ "content-length": "5", "last-modified": "b" }),
    await markOf({ "content-length": "5" }),
  ].map(({ changeMarker }) => changeMarker);
  expect(new Set([first.changeMarker, ...others]).size).toBe(6);
  expect(server.requests.map(({ method }) => method)).toEqual(Array(7).fill("HEAD"));
});

test("the first byte is requested from a server that refuses HEAD, and a missing file fails the check", async () => {
  const server = await serveModel((request, response) => {
    if (request.url !== "/m.gguf") return void response.writeHead(404).end();
    if (request.method === "HEAD") return void response.writeHead(405).end();
    response.writeHead(206, { etag: '"1"', "content-range": "bytes 0-0/5", "content-length": "1" }).end("x");
  });
  expect(await mark(`${server.url}/m.gguf`)).toMatchObject({ changeMarker: expect.any(String) });
  expect(server.requests.at(-1)?.headers.range).toBe("bytes=0-0");
  await expect(mark(`${server.url}/gone.gguf`)).rejects.toMatchObject({ error: { code: "SourceNotFound" } });
});

test("a commit that does not touch the model's files is not a change, and a changed file of the model is", async () => {
  let siblings: object[] = [];
  let sha = "";
  const answer = (request: IncomingMessage, response: ServerResponse) =>
    void response.end(
      request.url?.startsWith("/api/models/org/repo/") ? JSON.stringify({ sha, siblings }) : "",
    );
  const server = await serveModel(answer);
  const markOf = (commit: string, weights: object, readme = "1") => {
    sha = commit.repeat(40);
    siblings = [
      { rfilename: "m.gguf", ...weights },
      { rfilename: "README.md", blobId: readme },
    ];
    return mark("hf://org/repo", server.url);
  };
  const lfs = (digit: string) => ({ lfs: { sha256: digit.repeat(64), size: 5 } });
  const first = await markOf("a", lfs("1"));
  expect(first.revision).toBe("a".repeat(40));
  expect(await markOf("b", lfs("1"), "2")).toEqual({ ...first, revision: "b".repeat(40) });
  expect((await markOf("c", lfs("2"))).changeMarker).not.toBe(first.changeMarker);
  const small = await markOf("a", { blobId: "one" });
  expect((await markOf("b", { blobId: "one" })).changeMarker).toBe(small.changeMarker);
  expect((await markOf("b", { blobId: "two" })).changeMarker).not.toBe(small.changeMarker);
  // Without a marker of the file, every commit may have changed it.
  const unmarked = await markOf("a", {});
  expect((await markOf("b", {})).changeMarker).not.toBe(unmarked.changeMarker);
  expect(server.requests.every(({ url }) => url?.startsWith("/api/"))).toBe(true);
});
