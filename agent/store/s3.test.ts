/** s3:// sources from a real server that checks signatures. */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type S3Server, startS3Server, whyNoS3Server } from "../../test/bed/s3-server.ts";
import { ggufBytes, sha256 } from "../../test/fixtures/origin.ts";
import { changeMarkerOf, fetchOptions, startStore } from "./fixtures/store.ts";

const why = whyNoS3Server();

describe.skipIf(why !== undefined)(`an S3 server${why === undefined ? "" : ` (skipped: ${why})`}`, () => {
  let s3: S3Server;
  const model = ggufBytes(300_000, 1);
  const odd = "folder (1)/mödel +&='~.gguf";

  beforeAll(async () => {
    s3 = await startS3Server();
    const checksum = createHash("sha256").update(model).digest("base64");
    await s3.put("models/one/model.gguf", model, checksum);
    await s3.put(`models/${odd.split("/").map(encodeURIComponent).join("/")}`, model);
    await s3.put("public/tiny/model.gguf", model);
    await s3.put("models/mlx/config.json", Buffer.from("{}"), checksumOf("{}"));
    await s3.put("models/mlx/README.md", Buffer.from("# no weights"));
    await s3.put("models/mlx/weights/model.safetensors", Buffer.from("weights"));
  });

  afterAll(() => s3?.[Symbol.asyncDispose]());

  test("a file of a private bucket is fetched with signed requests and verified with the checksum that the server stores", async () => {
    await using at = await startStore();
    const request = { source: "s3://models/one/model.gguf", credentials: s3.credentials };
    const stored = await at.store.fetch(request, fetchOptions());
    expect(stored).toMatchObject({ sha256: sha256(model), sizeBytes: model.length });
    expect(await readFile(stored.path)).toEqual(model);
  });

  test("every valid object key is signed the way the server expects", async () => {
    await using at = await startStore({ machineCredentials: s3.credentials });
    const source = `s3://models/${odd.split("/").map(encodeURIComponent).join("/")}`;
    expect(await at.store.fetch({ source }, fetchOptions())).toMatchObject({ sha256: sha256(model) });
  });

  test("a folder is fetched as a model of many files, without its documentation", async () => {
    await using at = await startStore({ machineCredentials: s3.credentials });
    const request = { source: "s3://models/mlx", format: "mlx" } as const;
    const stored = await at.store.fetch(request, fetchOptions());
    expect(stored.files.map(({ name }) => name).sort()).toEqual(["config.json", "weights/model.safetensors"]);
  });

  test("a public bucket needs no credentials", async () => {
    await using at = await startStore();
    const { AWS_ENDPOINT_URL = "", AWS_REGION = "" } = s3.credentials;
    const credentials = { AWS_ENDPOINT_URL, AWS_REGION };
    const stored = await at.store.fetch({ source: "s3://public/tiny", credentials }, fetchOptions());
    expect(stored).toMatchObject({ sha256: sha256(model) });
  });

  test("a bucket in another region is found with the region that the server returns", async () => {
    await using at = await startStore();
    const credentials = { ...s3.credentials, AWS_REGION: "us-east-1" };
    for (const source of ["s3://models/one", "s3://models/one/model.gguf"])
      expect(await at.store.fetch({ source, credentials }, fetchOptions())).toMatchObject({
        sha256: sha256(model),
      });
  });

  test("a replaced object has another change marker, and is fetched once", async () => {
    await using at = await startStore();
    const source = "s3://models/changing.gguf";
    const { credentials } = s3;
    const marked = async () => ({
      source,
      credentials,
      changeMarker: await changeMarkerOf(source, {}, { credentials }),
    });
    const [first, second] = [ggufBytes(5_000, 7), ggufBytes(5_000, 8)];
    await s3.put("models/changing.gguf", first);
    let received = 0;
    const store = await at.reopen({
      onReceived: (bytes) => {
        received += bytes;
      },
    });
    const before = await marked();
    expect(await store.fetch(before, fetchOptions())).toMatchObject({ sha256: sha256(first) });
    expect(await marked()).toEqual(before);
    await s3.put("models/changing.gguf", second);
    const after = await marked();
    expect(await store.fetch(before, fetchOptions())).toMatchObject({ sha256: sha256(first) });
    expect(await store.fetch(after, fetchOptions())).toMatchObject({ sha256: sha256(second) });
    expect(received).toBe(first.length + second.length);
  });

  test.each([
    ["a wrong secret", "s3://models/one", { AWS_SECRET_ACCESS_KEY: "wrong" }, "SourceUnauthorized"],
    ["half a key", "s3://models/one", { AWS_ACCESS_KEY_ID: "" }, "SourceSecretInvalid"],
    [
      "no credentials",
      "s3://models/one",
      { AWS_ACCESS_KEY_ID: "", AWS_SECRET_ACCESS_KEY: "" },
      "SourceUnauthorized",
    ],
    ["an endpoint that is none", "s3://models/one", { AWS_ENDPOINT_URL: "http://" }, "SourceSecretInvalid"],
    ["a missing bucket", "s3://nowhere/one", {}, "SourceNotFound"],
    ["a missing folder", "s3://models/none", {}, "SourceNotFound"],
    ["a missing file", "s3://models/none.gguf", {}, "SourceNotFound"],
    ["a folder without a model", "s3://models/mlx/weights", { format: "gguf" }, "SourceIsNotAModel"],
  ] as const)(
    "%s has its own code",
    async (_, source, { format, ...changed }: Record<string, string>, code) => {
      await using at = await startStore();
      const request = { source, credentials: { ...s3.credentials, ...changed } };
      const asked = format === undefined ? request : { ...request, format: "gguf" as const };
      const failure = await at.store.fetch(asked, fetchOptions()).catch((error: unknown) => error);
      expect(failure).toMatchObject({ code });
      expect(String(failure)).not.toContain(s3.credentials.AWS_SECRET_ACCESS_KEY);
    },
  );
});

function checksumOf(text: string): string {
  return createHash("sha256").update(text).digest("base64");
}
