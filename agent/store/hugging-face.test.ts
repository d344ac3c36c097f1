/** CPU: a repository of ten thousand files is fetched. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  COMMIT,
  cutAfter,
  ggufBytes,
  sendFile,
  serveRepo,
  sha256,
  startOrigin,
} from "../../test/fixtures/origin.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { fetchOptions, patientLimits, silentLog, startStore, testClock } from "./fixtures/store.ts";
import { fetchToVolume } from "./volume.ts";

const weights = ggufBytes(400_000, 1);

test("a repository with one model is fetched at its commit, by file list and checksum", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  serveRepo(origin, "org/repo", { files: { "README.md": Buffer.from("x"), "m.gguf": weights } });
  const store = await at.reopen({
    hfEndpoint: `${origin.url}/`,
    allowLoopback: false,
    machineCredentials: { HF_TOKEN: "hf_agent" },
  });
  const model = await store.fetch({ source: "hf://org/repo" }, fetchOptions());
  expect(model).toMatchObject({ sha256: sha256(weights), sizeBytes: weights.length });
  expect(origin.seen.map((seen) => seen.path)).toEqual([
    "/api/models/org/repo/revision/main",
    `/org/repo/resolve/${COMMIT}/m.gguf`,
  ]);
  expect(origin.seen.every((seen) => seen.headers.authorization === "Bearer hf_agent")).toBe(true);
});

test("files that ignorePatterns exclude are not fetched, and a request with other patterns fetches what is missing", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const files = { "m.safetensors": weights, "config.json": Buffer.from("{}"), "old/m.pth": Buffer.from("x") };
  serveRepo(origin, "org/repo", { files });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const request = { source: "org/repo", format: "safetensors" } as const;
  const fetched = async (ignorePatterns: string[]) => {
    const model = await store.fetch({ ...request, ignorePatterns }, fetchOptions());
    expect(await store.resolve({ ...request, ignorePatterns })).toEqual(model);
    return model.files.map(({ name }) => name);
  };
  expect(await fetched(["old/"])).toEqual(["m.safetensors", "config.json"]);
  expect(origin.seen.filter(({ path }) => path.endsWith(".pth"))).toEqual([]);
  expect(await fetched(["*.json"])).toEqual(["m.safetensors", "old/m.pth"]);
  await expect(fetched(["*"])).rejects.toMatchObject({
    code: "FilesExcluded",
    message: expect.stringContaining("spec.ignorePatterns (*)"),
  });
});

test("a checksum that differs from the one in the file list is refused before the download", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  serveRepo(origin, "org/repo", { files: { "m.gguf": weights } });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const stated = "0".repeat(64);
  await expect(
    store.fetch({ source: "hf://org/repo", sha256: stated }, fetchOptions()),
  ).rejects.toMatchObject({
    code: "ChecksumMismatch",
    message: expect.stringContaining(`the source lists sha256 ${sha256(weights)} for m.gguf`),
  });
  expect(origin.seen.filter((seen) => seen.path.includes("/resolve/"))).toEqual([]);
});

test("content with a known checksum that is already on disk is not fetched again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  serveRepo(origin, "org/one", { files: { "m.gguf": weights } });
  serveRepo(origin, "org/two", { files: { "n.gguf": weights } });
  const store = await at.reopen({ hfEndpoint: origin.url });
  await store.fetch({ source: "org/one" }, fetchOptions());
  expect((await store.fetch({ source: "org/two" }, fetchOptions())).path).toMatch(/n\.gguf$/);
  expect(origin.seen.filter((seen) => seen.path.includes("/resolve/"))).toHaveLength(1);
});

test("a named file, its shards and the projector come from one commit; the redirect target gets no token", async () => {
  await using origin = await startOrigin();
  await using cdn = await startOrigin();
  await using at = await startStore();
  const files = {
    "Q4/m-00001-of-00002.gguf": ggufBytes(10_000, 1),
    "Q4/m-00002-of-00002.gguf": ggufBytes(10_000, 2),
    "mmproj.gguf": ggufBytes(5_000, 3),
    "Q8/m.gguf": ggufBytes(9_000, 4),
  };
  serveRepo(origin, "org/repo", { files, isPlain: true });
  for (const [name, content] of Object.entries(files)) {
    origin.on(
      `/org/repo/resolve/${COMMIT}/${name}`,
      (_, response) => void response.writeHead(302, { location: `${cdn.url}/${name}` }).end(),
    );
    cdn.on(`/${name}`, (request, response) => sendFile(request, response, content));
  }
  const store = await at.reopen({ hfEndpoint: origin.url });
  const request = {
    source: "hf://org/repo/Q4/m-00001-of-00002.gguf@main",
    mmproj: "mmproj.gguf",
    credentials: { token: "hf_secret" },
  };
  const model = await store.fetch(request, fetchOptions());
  expect(model.files.map((file) => file.name)).toEqual([
    "Q4/m-00001-of-00002.gguf",
    "Q4/m-00002-of-00002.gguf",
    "mmproj.gguf",
  ]);
  expect(model.path).toMatch(/Q4\/m-00001-of-00002\.gguf$/);
  expect(cdn.seen.map((seen) => seen.headers.authorization)).toEqual([undefined, undefined, undefined]);
});

test("a new commit fetches only the changed files", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const store = await at.reopen({ hfEndpoint: origin.url });
  const [a, b, c] = ["a".repeat(40), "b".repeat(40), "c".repeat(40)] as const;
  const fetch = (revision: string) => store.fetch({ source: "org/repo", revision }, fetchOptions());
  serveRepo(origin, "org/repo", { files: { "m.gguf": weights }, commit: a });
  const first = await fetch(a);
  serveRepo(origin, "org/repo", { files: { "m.gguf": weights }, commit: b });
  expect(await fetch(b)).toMatchObject({ sha256: sha256(weights), revision: b });
  expect(origin.seen.filter((seen) => seen.path.includes("/resolve/"))).toHaveLength(1);
  const other = ggufBytes(300_000, 8);
  serveRepo(origin, "org/repo", { files: { "m.gguf": other }, commit: c });
  expect(await fetch(c)).toMatchObject({ sha256: sha256(other), revision: c });
  expect(await fetch(a)).toEqual(first);
});

test("a mirror without the API serves named files", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/org/repo/resolve/main/m.gguf", weights);
  const store = await at.reopen({ hfEndpoint: origin.url });
  expect((await store.fetch({ source: "hf://org/repo/m.gguf" }, fetchOptions())).sha256).toBe(
    sha256(weights),
  );
});

test("all files of a repository in another format are in one folder", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const files = {
    "config.json": Buffer.from("{}"),
    "model.safetensors": Buffer.from("weights"),
    "README.md": Buffer.from("#"),
  };
  serveRepo(origin, "org/mlx", { files });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const model = await store.fetch({ source: "org/mlx", format: "mlx" }, fetchOptions());
  expect(model.files.map((file) => file.name)).toEqual(["config.json", "model.safetensors"]);
});

test("each kind of refusal by the hub has its own code", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const store = await at.reopen({ hfEndpoint: origin.url });
  const fetch = (source: string) => store.fetch({ source }, fetchOptions());
  await expect(fetch("org/none")).rejects.toMatchObject({ code: "SourceNotFound" });
  serveRepo(origin, "org/two", { files: { "a.gguf": weights, "b.gguf": weights } });
  await expect(fetch("org/two")).rejects.toMatchObject({
    code: "SourceAmbiguous",
    message: expect.stringMatching(/a\.gguf, b\.gguf/),
  });
  await expect(fetch("hf://org/two/c.gguf")).rejects.toMatchObject({
    code: "SourceNotFound",
    message: expect.stringMatching(/c\.gguf/),
  });
  for (const [status, code] of [
    [401, "SourceUnauthorized"],
    [403, "SourceForbidden"],
    [503, "SourceUnavailable"],
  ] as const) {
    origin.on("/api/models/org/gated/revision/main", (_, response) => void response.writeHead(status).end());
    await expect(fetch("org/gated")).rejects.toMatchObject({ code });
  }
  origin.on("/api/models/org/odd/revision/main", (_, response) => void response.end("<html>"));
  await expect(fetch("org/odd")).rejects.toMatchObject({ code: "SourceRefused" });
  serveRepo(origin, "org/evil", { files: { "../../x.gguf": weights } });
  await expect(fetch("org/evil")).rejects.toMatchObject({ code: "FileNameNotAllowed" });
  await expect(fetch("pvc://claim/key.gguf")).rejects.toMatchObject({ code: "SourceNotSupported" });
});

test("a pattern fetches all parts of one quantization from one commit, even if the repository changes meanwhile", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const parts = ["Q4/m-Q4_K_M-00001-of-00002.gguf", "Q4/m-Q4_K_M-00002-of-00002.gguf"] as const;
  const first = ggufBytes(10_000, 1);
  const files = { [parts[0]]: first, [parts[1]]: ggufBytes(10_000, 2), "m-Q8_0.gguf": weights };
  serveRepo(origin, "org/repo", { files });
  origin.on(`/org/repo/resolve/${COMMIT}/${parts[0]}`, (request, response) => {
    serveRepo(origin, "org/repo", { files: { "other.gguf": weights }, commit: "b".repeat(40) });
    sendFile(request, response, first);
  });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const model = await store.fetch({ source: "hf://org/repo", files: ["*Q4_K_M*"] }, fetchOptions());
  expect(model.revision).toBe(COMMIT);
  expect(model.files.map(({ name }) => name)).toEqual(parts);
});

test("a token that is revoked during a download ends it, and the received bytes are kept for another token", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  serveRepo(origin, "org/repo", { files: { "m.gguf": weights } });
  const path = `/org/repo/resolve/${COMMIT}/m.gguf`;
  let requests = 0;
  origin.on(path, (request, response) => {
    requests += 1;
    if (requests === 1) return cutAfter(response, weights, 150_000, '"w"');
    if (request.headers.authorization !== "Bearer new") return void response.writeHead(401).end();
    sendFile(request, response, weights, '"w"');
  });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const fetch = (token: string) =>
    store.fetch({ source: "hf://org/repo", credentials: { token } }, fetchOptions());
  await expect(fetch("old")).rejects.toMatchObject({ code: "SourceUnauthorized" });
  expect(await fetch("new")).toMatchObject({ sha256: sha256(weights) });
  expect(origin.seen.at(-1)?.headers.range).toBe("bytes=150000-");
});

test.each(["http://169.254.169.254/m.gguf", "http://10.1.2.3/m.gguf"])(
  "the hub's redirect to %s is refused",
  async (location) => {
    await using origin = await startOrigin();
    await using at = await startStore();
    serveRepo(origin, "org/repo", { files: { "m.gguf": weights } });
    origin.on(
      `/org/repo/resolve/${COMMIT}/m.gguf`,
      (_, response) => void response.writeHead(302, { location }).end(),
    );
    const store = await at.reopen({ hfEndpoint: origin.url });
    const fetching = store.fetch({ source: "hf://org/repo" }, fetchOptions());
    await expect(fetching).rejects.toMatchObject({ code: "SourceNotAllowed" });
  },
);

test("a repository of ten thousand files is fetched completely, with each content fetched once", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  const contents = [Buffer.from("one"), Buffer.from("two"), Buffer.from("three")];
  const names = Array.from({ length: 10_000 }, (_, index) => `parts/${index}.bin`);
  const files = Object.fromEntries(
    names.map((name, index) => [name, contents[index % contents.length] ?? Buffer.alloc(0)]),
  );
  serveRepo(origin, "org/many", { files: { "config.json": Buffer.from("{}"), ...files } });
  const store = await at.reopen({ hfEndpoint: origin.url });
  const model = await store.fetch({ source: "hf://org/many", format: "mlx" }, fetchOptions());
  expect(model.files).toHaveLength(10_001);
  expect(origin.seen).toHaveLength(1 + 1 + contents.length);
  expect(readFileSync(join(model.path, "parts/9999.bin"), "utf8")).toBe("one");
  expect(await store.resolve({ source: "hf://org/many", format: "mlx" })).toEqual(model);
});

test("a repository of safetensors on a volume is reported with its format and its quantization", async () => {
  await using origin = await startOrigin();
  await using volume = await temporaryFolder();
  const config = { model_type: "llama", quantization_config: { quant_method: "awq", bits: 4 } };
  const files = { "config.json": Buffer.from(JSON.stringify(config)), "model.safetensors": weights };
  serveRepo(origin, "org/awq", { files });
  const result = await fetchToVolume({
    request: { source: "hf://org/awq" },
    ...{ volume: volume.path, folder: "aa", clock: testClock, log: silentLog, limits: patientLimits },
    ...{ allowLoopback: true, hfEndpoint: origin.url, onProgress: () => undefined },
    signal: new AbortController().signal,
  });
  expect(result).toMatchObject({
    ...{ code: "Fetched", format: "safetensors", quantization: "awq-4bit" },
    weightsBytes: weights.length,
  });
});
