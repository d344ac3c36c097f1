/** Stored weights are bound to their origin: neither an own endpoint nor a checksum gives access to weights of other tenants. */
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { SourceCredentials } from "../../src/models/source/credentials.ts";
import {
  cutAfter,
  ggufBytes,
  type Origin,
  sendFile,
  sha256,
  startOrigin,
} from "../../test/fixtures/origin.ts";
import { fetchOptions, patientLimits, startStore } from "./fixtures/store.ts";

const mine = ggufBytes(40_000, 1);
const theirs = ggufBytes(50_000, 2);

const downloads = ({ seen }: Origin, path: string): number =>
  seen.filter((one) => one.method === "GET" && one.path === path).length;

/** A file that is sent to clients with this token. */
function gate(origin: Origin, path: string, content: Buffer, token: string): void {
  origin.on(path, (request, response) => {
    if (request.headers.authorization === `Bearer ${token}`) return sendFile(request, response, content);
    response.writeHead(401).end();
  });
}

interface Kind {
  readonly kind: string;
  readonly source: string;
  readonly path: string;
  readonly endpoint: (url: string) => SourceCredentials;
  readonly list?: readonly [string, object];
}

const kinds: readonly Kind[] = [
  {
    kind: "S3",
    source: "s3://models/m.gguf",
    path: "/models/m.gguf",
    endpoint: (url) => ({ AWS_ENDPOINT_URL: url }),
  },
  {
    kind: "OSS",
    source: "oss://models/m.gguf",
    path: "/models/m.gguf",
    endpoint: (url) => ({ OSS_ENDPOINT: url }),
  },
  {
    kind: "the storage emulator",
    source: "gs://models/m.gguf",
    path: "/models/m.gguf",
    endpoint: (url) => ({ STORAGE_EMULATOR_HOST: url }),
  },
  {
    kind: "ModelScope",
    source: "modelscope://org/repo/m.gguf",
    path: "/models/org/repo/resolve/master/m.gguf",
    endpoint: (url) => ({ MODELSCOPE_ENDPOINT: url }),
    list: ["/api/v1/models/org/repo/repo/files", { Code: 200, Data: { Files: [{ Path: "m.gguf" }] } }],
  },
];

describe.each(kinds)("an endpoint of $kind that a Secret chooses", ({ source, path, endpoint, list }) => {
  test("content from an endpoint that a Secret chooses is not given to requests with another Secret or none", async () => {
    await using own = await startOrigin();
    await using other = await startOrigin();
    await using at = await startStore({ machineCredentials: endpoint(other.url) });
    for (const [origin, content] of [
      [own, mine],
      [other, theirs],
    ] as const) {
      origin.serve(path, content);
      if (list !== undefined) origin.on(list[0], (_, response) => void response.end(JSON.stringify(list[1])));
    }
    const a = { source, secret: "team-a/keys" };
    const b = { source, secret: "team-b/keys" };
    await at.store.fetch({ ...a, credentials: endpoint(own.url) }, fetchOptions());
    expect(await at.store.resolve(b)).toBeUndefined();
    expect(await at.store.resolve({ source })).toBeUndefined();
    const found = await at.store.fetch({ ...b, credentials: endpoint(other.url) }, fetchOptions());
    expect(found.sha256).toBe(sha256(theirs));
    expect((await at.store.fetch({ source }, fetchOptions())).sha256).toBe(sha256(theirs));
    // Each finds its own content again, without its Secret.
    expect((await at.store.resolve(a))?.sha256).toBe(sha256(mine));
    expect((await at.store.resolve(b))?.sha256).toBe(sha256(theirs));
    // If the Secret now names another endpoint, content is requested from there.
    const moved = await at.store.fetch({ ...a, credentials: endpoint(other.url) }, fetchOptions());
    expect(moved.sha256).toBe(sha256(theirs));
  });
});

test("content without a Secret is found if it is from the current endpoint, and otherwise requested from the source", async () => {
  await using own = await startOrigin();
  await using other = await startOrigin();
  own.serve("/models/m.gguf", mine);
  other.serve("/models/m.gguf", theirs);
  const request = { source: "s3://models/m.gguf" };
  await using at = await startStore({ machineCredentials: { AWS_ENDPOINT_URL: own.url } });
  await at.store.fetch(request, fetchOptions());
  expect((await at.store.resolve(request))?.sha256).toBe(sha256(mine));
  const elsewhere = await at.reopen({ machineCredentials: { AWS_ENDPOINT_URL: other.url } });
  expect(await elsewhere.resolve(request)).toBeUndefined();
  expect((await elsewhere.fetch(request, fetchOptions())).sha256).toBe(sha256(theirs));
});

describe("content that took credentials", () => {
  test.each(["", ", even if the record of its origin was deleted"])(
    "content that required credentials is not given for its checksum to another source%s",
    async (deleted) => {
      await using origin = await startOrigin();
      await using at = await startStore();
      gate(origin, "/gated.gguf", theirs, "right");
      origin.serve("/decoy.gguf", mine);
      const gated = { source: `${origin.url}/gated.gguf`, sha256: sha256(theirs) };
      const credentials = { token: "right" };
      await at.store.fetch({ ...gated, secret: "team-b/token", credentials }, fetchOptions());
      if (deleted !== "") rmSync(join(at.dir, "origins"), { recursive: true });
      for (const more of [{}, { secret: "team-a/token", credentials: { token: "own" } }]) {
        const decoy = { source: `${origin.url}/decoy.gguf`, sha256: sha256(theirs), ...more };
        const failure = await at.store.fetch(decoy, fetchOptions()).catch((error: unknown) => error);
        expect(failure).toMatchObject({ code: "ChecksumMismatch" });
      }
      expect(downloads(origin, "/gated.gguf")).toBe(1);
    },
  );

  test("content that required credentials is given, without a second download, only to credentials that its origin accepts", async () => {
    await using origin = await startOrigin();
    await using at = await startStore();
    gate(origin, "/gated.gguf", theirs, "right");
    const gated = { source: `${origin.url}/gated.gguf`, sha256: sha256(theirs) };
    const right = { token: "right" };
    await at.store.fetch({ ...gated, secret: "team-b/token", credentials: right }, fetchOptions());
    for (const more of [{}, { secret: "team-a/token", credentials: { token: "wrong" } }]) {
      expect(await at.store.resolve({ ...gated, secret: more.secret })).toBeUndefined();
      await expect(at.store.fetch({ ...gated, ...more }, fetchOptions())).rejects.toMatchObject({
        code: "SourceUnauthorized",
      });
    }
    const before = downloads(origin, "/gated.gguf");
    const third = { ...gated, secret: "team-c/token", credentials: right };
    expect((await at.store.fetch(third, fetchOptions())).sha256).toBe(sha256(theirs));
    expect(downloads(origin, "/gated.gguf")).toBe(before);
  });

  test("content that required credentials is not given to a request that joins the download without access", async () => {
    await using origin = await startOrigin();
    await using at = await startStore();
    const asked = Promise.withResolvers<void>();
    const isOpen = Promise.withResolvers<void>();
    origin.on("/gated.gguf", async (request, response) => {
      if (request.headers.authorization !== "Bearer right") return void response.writeHead(401).end();
      asked.resolve();
      await isOpen.promise;
      sendFile(request, response, theirs);
    });
    for (const more of [{}, { sha256: sha256(theirs) }]) {
      const gated = { source: `${origin.url}/gated.gguf`, ...more };
      const allows = { secret: "team-b/token", credentials: { token: "right" } };
      const first = at.store.fetch({ ...gated, ...allows }, fetchOptions());
      await asked.promise;
      const joined = at.store.fetch(
        { ...gated, secret: "team-a/token", credentials: { token: "own" } },
        fetchOptions(),
      );
      const refused = expect(joined).rejects.toMatchObject({ code: "SourceUnauthorized" });
      isOpen.resolve();
      expect((await first).sha256).toBe(sha256(theirs));
      await refused;
    }
  });

  test("partly downloaded content that required credentials is not completed from another source", async () => {
    await using origin = await startOrigin();
    const limits = { ...patientLimits, attempts: 1 };
    await using at = await startStore({ limits });
    const large = ggufBytes(4_000_000, 3);
    const stated = sha256(large);
    origin.on("/gated.gguf", (_, response) => cutAfter(response, large, large.length - 1));
    const gated = { source: `${origin.url}/gated.gguf`, sha256: stated, secret: "team-b/token" };
    const failed = at.store.fetch({ ...gated, credentials: { token: "right" } }, fetchOptions());
    await expect(failed).rejects.toMatchObject({ code: "SourceTruncated" });
    const sizes = readdirSync(join(at.dir, "partial")).map(
      (name) => statSync(join(at.dir, "partial", name)).size,
    );
    expect(Math.max(...sizes)).toBeGreaterThan(100_000);
    // This source would send only the end of the file.
    const ranges: unknown[] = [];
    origin.on("/decoy.gguf", (request, response) => {
      ranges.push(request.headers.range);
      response.writeHead(404).end();
    });
    const decoy = { source: `${origin.url}/decoy.gguf`, sha256: stated };
    await expect(at.store.fetch(decoy, fetchOptions())).rejects.toMatchObject({ code: "SourceNotFound" });
    expect(ranges).toEqual([undefined]);
  });

  test("content that required credentials is reused at another commit of the same repository, if that lists the checksum", async () => {
    await using hub = await startOrigin();
    await using at = await startStore({ hfEndpoint: hub.url });
    const commits = ["a".repeat(40), "b".repeat(40)];
    const lfs = { sha256: sha256(theirs), size: theirs.length };
    const siblings = [{ rfilename: "m.gguf", lfs }];
    for (const sha of commits) {
      hub.on(`/api/models/org/repo/revision/${sha}`, (_, response) => {
        response.end(JSON.stringify({ sha, siblings }));
      });
      gate(hub, `/org/repo/resolve/${sha}/m.gguf`, theirs, "right");
    }
    for (const revision of commits) {
      const request = { source: "hf://org/repo", revision, secret: "team-b/token" };
      const found = await at.store.fetch({ ...request, credentials: { token: "right" } }, fetchOptions());
      expect(found.sha256).toBe(sha256(theirs));
    }
    expect(commits.map((sha) => downloads(hub, `/org/repo/resolve/${sha}/m.gguf`))).toEqual([1, 0]);
    // The file list of a gated repository is public, so access is decided by the file request.
    const stranger = { source: "hf://org/repo", revision: commits[0], secret: "team-a/token" };
    const asked = at.store.fetch({ ...stranger, credentials: { token: "own" } }, fetchOptions());
    await expect(asked).rejects.toMatchObject({ code: "SourceUnauthorized" });
  });
});

test("public content is shared by checksum with any source, also after a request with credentials fetched it", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", mine);
  origin.serve("/mirror.gguf", mine);
  const stated = { sha256: sha256(mine) };
  const withToken = { source: `${origin.url}/m.gguf`, ...stated, secret: "team-a/token" };
  await at.store.fetch({ ...withToken, credentials: { token: "x" } }, fetchOptions());
  await at.store.fetch({ source: `${origin.url}/mirror.gguf`, ...stated }, fetchOptions());
  await at.store.fetch({ source: `${origin.url}/third.gguf`, ...stated }, fetchOptions());
  expect(downloads(origin, "/m.gguf")).toBe(1);
  expect(downloads(origin, "/mirror.gguf")).toBe(1);
  expect(downloads(origin, "/third.gguf")).toBe(0);
});

test("the origin of content is deleted with the content, and an unreadable origin gives no access", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", mine);
  await at.store.fetch({ source: `${origin.url}/m.gguf`, sha256: sha256(mine) }, fetchOptions());
  const note = join(at.dir, "origins", sha256(mine));
  expect(JSON.parse(readFileSync(note, "utf8"))).toMatchObject({ isPublic: true });
  writeFileSync(note, "{");
  const elsewhere = { source: `${origin.url}/none.gguf`, sha256: sha256(mine) };
  await expect(at.store.fetch(elsewhere, fetchOptions())).rejects.toMatchObject({ code: "SourceNotFound" });
  await at.store.remove(`${origin.url}/m.gguf`);
  await at.reopen();
  expect(readdirSync(join(at.dir, "origins"))).toEqual([]);
});
