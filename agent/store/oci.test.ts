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
} from "../../test/fixtures/oci-registry.ts";
import { ggufBytes, sha256 } from "./fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";

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
      at.store.fetch({ source, ...(credentials === undefined ? {} : { credentials }) }, fetchOptions());
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
  "anonymous pulls, tags that move, digests, indexes and what is not there",
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
    // What is stored stays, also when the tag moves; whoever asks for changes gets them without a second download.
    expect(await fetch(":v1")).toMatchObject({ revision: first });
    const before = registry.blobRequests.length;
    const changed = await fetch(":v1", { refreshPolicy: "OnChange", files: ["tiny.gguf"] });
    expect(changed).toMatchObject({ revision: second, sha256: sha256(content) });
    expect(registry.blobRequests).toHaveLength(before);
    expect(await fetch(`@${second}`, { files: ["other.gguf"] })).toMatchObject({ sha256: sha256(other) });
    expect(await fetch(":v1", { revision: first })).toMatchObject({ revision: first });
    const mediaType = "application/vnd.oci.image.index.v1+json";
    const manifest = { mediaType: "application/vnd.oci.image.manifest.v1+json", digest: first, size: 1 };
    const indexDigest = await registry.put("public/tiny", "all", {
      ...{ schemaVersion: 2, mediaType },
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
  "a model of the Ollama library is its GGUF and its projector, for any engine",
  async () => {
    await using registry = await startOciRegistry();
    await using at = await startStore({ ollamaRegistry: `http://${registry.host}`, allowLoopback: false });
    const projector = ggufBytes(50_000, 3);
    const digest = await registry.push("library/tiny", "1b", [
      ollamaLayer("model", content),
      ollamaLayer("projector", projector),
      ollamaLayer("template", Buffer.from("{{ .Prompt }}")),
    ]);
    // The registry is the operator's; where it redirects to is not.
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
