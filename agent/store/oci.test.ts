/** oci:// and ollama:// sources: a real registry with its kinds of authorization, and blobs on another host. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import {
  digestOf,
  orasLayer,
  PASSWORD,
  registryProgram,
  startOciRegistry,
  USERNAME,
} from "../../test/bed/oci-registry.ts";
import { headerBytes, TENSOR_BYTES } from "../../test/fixtures/model-server.ts";
import {
  cutAfter,
  ggufBytes,
  type Origin,
  sendFile,
  sha256,
  startOrigin,
} from "../../test/fixtures/origin.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { fetchOptions, patientLimits, silentLog, startStore, testClock } from "./fixtures/store.ts";
import { fetchToVolume } from "./volume.ts";

const content = ggufBytes(200_000);
const dockerConfig = (host: string) =>
  JSON.stringify({ auths: { [`https://${host}/v2/`]: { username: USERNAME, password: PASSWORD } } }, null, 2);
const ollamaLayer = (type: string, bytes: Buffer) => ({
  mediaType: `application/vnd.ollama.image.${type}`,
  content: bytes,
});

test.skipIf(registryProgram === undefined).each(["basic", "token"] as const)(
  "a private model is fetched with %s authorization, which the host of the blobs never sees",
  async (auth) => {
    await using registry = await startOciRegistry({ auth });
    await using at = await startStore();
    const digest = await registry.push("org/tiny", "v1", [orasLayer("tiny.gguf", content)]);
    const source = `oci://${registry.host}/org/tiny:v1`;
    const fetch = (credentials?: Record<string, string>) =>
      at.store.fetch({ source, credentials }, fetchOptions());
    await expect(fetch()).rejects.toMatchObject({ code: "SourceUnauthorized" });
    await expect(fetch({ username: USERNAME, password: "wrong" })).rejects.toMatchObject({
      code: "SourceUnauthorized",
    });
    await expect(fetch({ ".dockerconfigjson": dockerConfig("other.example") })).rejects.toMatchObject({
      code: "SourceUnauthorized",
    });
    expect(registry.blobRequests).toHaveLength(0);
    const model = await fetch({ ".dockerconfigjson": dockerConfig(registry.host) });
    expect(model).toMatchObject({ sha256: sha256(content), sizeBytes: content.length, revision: digest });
    expect(readFileSync(model.path).equals(content)).toBe(true);
    expect(model.files.map(({ name }) => name)).toEqual(["tiny.gguf"]);
    expect(registry.blobRequests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
    const { store } = at;
    await store.remove(source);
    expect(await fetch({ username: USERNAME, password: PASSWORD })).toMatchObject({ revision: digest });
  },
);

test.skipIf(registryProgram === undefined)(
  "OCI models are pulled anonymously by tag, digest or index; moved tags and missing artifacts are detected",
  async () => {
    await using registry = await startOciRegistry({ auth: "token" });
    await using at = await startStore();
    const repository = `oci://${registry.host}/public/tiny`;
    const fetch = (reference: string, more: object = {}) =>
      at.store.fetch({ source: `${repository}${reference}`, ...more }, fetchOptions());
    const first = await registry.push("public/tiny", "v1", [orasLayer("tiny.gguf", content)]);
    expect(await fetch(":v1")).toMatchObject({ sha256: sha256(content), revision: first });
    const other = ggufBytes(300_000, 2);
    const second = await registry.push("public/tiny", "v1", [
      orasLayer("tiny.gguf", content),
      orasLayer("other.gguf", other),
    ]);
    // Stored content is kept when the tag moves, and another revision reuses shared blobs from the store.
    expect(await fetch(":v1")).toMatchObject({ revision: first });
    const before = registry.blobRequests.length;
    const changed = await fetch(":v1", { revision: second, files: ["tiny.gguf"] });
    expect(changed).toMatchObject({ revision: second, sha256: sha256(content) });
    expect(registry.blobRequests).toHaveLength(before);
    expect(await fetch(`@${second}`, { files: ["other.gguf"] })).toMatchObject({ sha256: sha256(other) });
    expect(await fetch(":v1", { revision: first })).toMatchObject({ revision: first });
    const mediaType = "application/vnd.oci.image.index.v1+json";
    const manifest = { mediaType: "application/vnd.oci.image.manifest.v1+json", digest: first, size: 1 };
    const indexDigest = await registry.put("public/tiny", "all", {
      schemaVersion: 2,
      mediaType,
      manifests: [manifest],
    });
    expect(await fetch(":all")).toMatchObject({ revision: indexDigest, sha256: sha256(content) });
    await expect(fetch(":none")).rejects.toMatchObject({
      code: "SourceNotFound",
      message: expect.stringContaining("no such repository, tag or digest"),
    });
    await expect(fetch(`@${digestOf("other")}`)).rejects.toMatchObject({ code: "SourceNotFound" });
    await expect(fetch(`@${second}`)).rejects.toMatchObject({ code: "SourceAmbiguous" });
    await expect(fetch(`@${second}`, { files: ["none.gguf"] })).rejects.toMatchObject({
      code: "SourceNotFound",
    });
  },
);

test.skipIf(registryProgram === undefined)(
  "a model of the Ollama library is stored as its GGUF and its projector, for any engine",
  async () => {
    await using registry = await startOciRegistry();
    await using at = await startStore({ ollamaRegistry: `http://${registry.host}`, allowLoopback: false });
    const projector = ggufBytes(50_000, 3);
    const digest = await registry.push("library/tiny", "1b", [
      ollamaLayer("model", content),
      ollamaLayer("projector", projector),
      ollamaLayer("template", Buffer.from("{{ .Prompt }}")),
    ]);
    // The operator configured the registry, but not the target of its redirects.
    await expect(at.store.fetch({ source: "ollama://tiny:1b" }, fetchOptions())).rejects.toMatchObject({
      code: "SourceNotAllowed",
    });
    const store = await at.reopen({ allowLoopback: true });
    const model = await store.fetch({ source: "ollama://tiny:1b", format: "gguf" }, fetchOptions());
    expect(model).toMatchObject({ sha256: sha256(content), revision: digest });
    expect(readFileSync(model.mmprojPath ?? "").equals(projector)).toBe(true);
    await expect(store.fetch({ source: "ollama://tiny:7b" }, fetchOptions())).rejects.toMatchObject({
      code: "SourceNotFound",
    });
    await registry.push("library/tuned", "latest", [
      ollamaLayer("model", content),
      ollamaLayer("adapter", ggufBytes(1_000, 4)),
    ]);
    await expect(store.fetch({ source: "ollama://tuned" }, fetchOptions())).rejects.toMatchObject({
      code: "SourceNotSupported",
      remedy: { summary: expect.stringContaining("spec.format") },
    });
  },
);

test.skipIf(registryProgram === undefined)(
  "a download Job writes an OCI model to a volume in the same way",
  async () => {
    await using registry = await startOciRegistry();
    await using volume = await temporaryFolder();
    const gguf = Buffer.concat([headerBytes(10), Buffer.alloc(TENSOR_BYTES)]);
    const revision = await registry.push("library/seeing", "latest", [
      ollamaLayer("model", gguf),
      ollamaLayer("projector", content),
    ]);
    const result = await fetchToVolume({
      request: { source: "ollama://seeing", format: "gguf" },
      volume: volume.path,
      folder: "aa",
      ollamaRegistry: `http://${registry.host}`,
      allowLoopback: true,
      clock: testClock,
      log: silentLog,
      hfEndpoint: "http://127.0.0.1:9",
      limits: patientLimits,
      signal: new AbortController().signal,
      onProgress: () => undefined,
    });
    expect(result).toMatchObject({
      code: "Fetched",
      format: "gguf",
      revision,
      sizeBytes: gguf.length + content.length,
      file: expect.stringMatching(/\/model\.gguf$/),
      mmproj: expect.stringMatching(/\/projector\.gguf$/),
    });
  },
);

const LARGE = ggufBytes(3 << 20, 5);

/** One artifact on an origin whose blob responses are defined by the test. */
function artifactOn(origin: Origin, onBlob: Parameters<Origin["on"]>[1]): string {
  const digest = `sha256:${sha256(LARGE)}`;
  const annotations = { "org.opencontainers.image.title": "m.gguf" };
  const layers = [{ mediaType: "application/octet-stream", digest, size: LARGE.length, annotations }];
  origin.on("/v2/org/m/manifests/v1", (_, response) => void response.end(JSON.stringify({ layers })));
  origin.on(`/v2/org/m/blobs/${digest}`, onBlob);
  return `oci://${new URL(origin.url).host}/org/m:v1`;
}

test("a blob that does not match its digest is not kept, and an interrupted one is resumed", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const source = artifactOn(origin, (request, response) =>
    sendFile(request, response, ggufBytes(LARGE.length, 6)),
  );
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toMatchObject({
    code: "ChecksumMismatch",
    message: expect.stringContaining(`expected ${sha256(LARGE)}`),
  });
  expect(await at.store.list()).toEqual([]);
  const ranges: (string | undefined)[] = [];
  artifactOn(origin, (request, response) => {
    ranges.push(request.headers.range);
    if (ranges.length === 1) return cutAfter(response, LARGE, 2 << 20);
    sendFile(request, response, LARGE, '"cut"');
  });
  expect(await at.store.fetch({ source }, fetchOptions())).toMatchObject({ sha256: sha256(LARGE) });
  expect(ranges).toEqual([undefined, `bytes=${2 << 20}-`]);
});

test("a token that is revoked during a download ends it, and the part is kept for another token", async () => {
  await using tokens = await startOrigin();
  await using origin = await startOrigin();
  await using at = await startStore();
  let isRevoked = false;
  tokens.on("/token", (request, response) => {
    if (isRevoked && request.headers.authorization === undefined) return void response.writeHead(401).end();
    response.end(JSON.stringify({ token: isRevoked ? "second" : "first" }));
  });
  const ranges: (string | undefined)[] = [];
  const source = artifactOn(origin, (request, response) => {
    const expected = isRevoked ? "Bearer second" : "Bearer first";
    if (request.headers.authorization !== expected) {
      const challenge = `Bearer realm="${tokens.url}/token",service="s",scope="repository:org/m:pull"`;
      return void response.writeHead(401, { "www-authenticate": challenge }).end();
    }
    ranges.push(request.headers.range);
    if (isRevoked) return sendFile(request, response, LARGE, '"cut"');
    isRevoked = true;
    cutAfter(response, LARGE, 2 << 20);
  });
  await expect(at.store.fetch({ source }, fetchOptions())).rejects.toMatchObject({
    code: "SourceUnauthorized",
    message: expect.stringContaining("refused an anonymous pull (401)"),
  });
  const credentials = { username: "u", password: "p" };
  const model = await at.store.fetch({ source, credentials }, fetchOptions());
  expect(model).toMatchObject({ sha256: sha256(LARGE) });
  expect(ranges).toEqual([undefined, `bytes=${2 << 20}-`]);
});
