/** Secrets in source URLs are not exposed, and sources that stall or try to obtain a token are refused. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, patientLimits, startStore } from "./fixtures/store.ts";

const content = ggufBytes(20_000);

test("the signature of a URL is in no list, log line or message", async () => {
  await using origin = await startOrigin();
  const lines: string[] = [];
  const note = (data: object, text: string) => void lines.push(JSON.stringify(data) + text);
  const log = { debug: note, info: note, warn: note, error: note, child: () => log };
  await using at = await startStore({ log });
  origin.serve("/m.gguf", content);
  await at.store.fetch({ source: `${origin.url}/m.gguf?sig=geheim` }, fetchOptions());
  expect((await at.store.list()).map(({ source }) => source)).toEqual([`${origin.url}/m.gguf`]);
  origin.on("/busy.gguf", (_, response) => void response.writeHead(503).end());
  origin.on("/none.gguf", (_, response) => void response.writeHead(404).end());
  const busy = { source: `${origin.url}/busy.gguf?sig=geheim` };
  await expect(at.store.fetch(busy, fetchOptions())).rejects.toMatchObject({ code: "SourceUnavailable" });
  const failure = await at.store
    .fetch({ source: `${origin.url}/none.gguf?sig=geheim` }, fetchOptions())
    .catch(String);
  expect(failure).toMatch(/none\.gguf answered 404/);
  const store = await at.reopen({ quotaBytes: 1 });
  expect(await store.collect()).toHaveLength(1);
  expect(lines.length).toBeGreaterThan(2);
  expect([...lines, failure].join("\n")).not.toContain("geheim");
});

test("a list of files that stops arriving counts as stalled", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({
    hfEndpoint: origin.url,
    limits: { ...patientLimits, stallMs: 200, attempts: 1 },
  });
  origin.on("/api/models/org/repo/revision/main", (_, response) => void response.write('{"siblings":['));
  await expect(at.store.fetch({ source: "org/repo" }, fetchOptions())).rejects.toMatchObject({
    code: "SourceStalled",
  });
});

test("connections from before a sleep are replaced immediately after it", async () => {
  await using origin = await startOrigin();
  await using at = await startStore({
    hfEndpoint: origin.url,
    limits: { ...patientLimits, stallMs: 60_000 },
  });
  let asked = 0;
  const listing = signal();
  const sha = "a".repeat(40);
  origin.on("/api/models/org/repo/revision/main", (_, response) => {
    asked += 1;
    if (asked > 1) return void response.end(JSON.stringify({ sha, siblings: [{ rfilename: "m.gguf" }] }));
    response.write('{"siblings":[', () => listing.resolve());
  });
  const body = signal();
  let bodies = 0;
  origin.on(`/org/repo/resolve/${sha}/m.gguf`, (_, response) => {
    bodies += 1;
    response.writeHead(200, { "content-length": content.length });
    if (bodies > 1) return void response.end(content);
    response.write(content.subarray(0, 1000), () => body.resolve());
  });
  const fetched = at.store.fetch({ source: "org/repo" }, fetchOptions());
  await listing.promise;
  at.store.reconnect();
  await body.promise;
  at.store.reconnect();
  expect((await fetched).sizeBytes).toBe(content.length);
  expect([asked, bodies]).toEqual([2, 2]);
});

test("a projector on another server is refused before the token is sent there", async () => {
  await using origin = await startOrigin();
  await using other = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  origin.serve("/p.gguf", content);
  other.serve("/p.gguf", content);
  const request = { source: `${origin.url}/m.gguf`, credentials: { token: "t0ken" } };
  await expect(
    at.store.fetch({ ...request, mmproj: `${other.url}/p.gguf` }, fetchOptions()),
  ).rejects.toMatchObject({ code: "SourceNotAllowed" });
  expect(other.seen).toEqual([]);
  const model = await at.store.fetch({ ...request, mmproj: `${origin.url}/p.gguf` }, fetchOptions());
  expect(model.mmprojPath).toMatch(/p\.gguf$/);
});

test("the quantization selects files in a folder of the host, as in a repository", async () => {
  const folder = await mkdtemp(join(tmpdir(), "mb-folder-"));
  try {
    await mkdir(join(folder, "unrelated"));
    for (const name of ["m-Q4_K_M.gguf", "m-Q8_0.gguf"]) await writeFile(join(folder, name), content);
    await using at = await startStore({ allowedRoots: [folder] });
    await expect(at.store.resolve({ source: folder })).rejects.toMatchObject({ code: "SourceAmbiguous" });
    const model = await at.store.resolve({ source: folder, quantization: "Q8_0" });
    expect(model?.path).toBe(join(folder, "m-Q8_0.gguf"));
  } finally {
    await rm(folder, { recursive: true });
  }
});

function signal(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
