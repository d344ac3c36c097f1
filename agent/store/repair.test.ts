import { chmodSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";

const content = ggufBytes(100_000);
const blob = join("blobs/sha256", sha256(content));

test("removed views are rebuilt from the blobs, without the network and without a restart", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf` };
  const model = await at.store.fetch(request, fetchOptions());
  const asked = origin.seen.length;
  for (const lost of ["views", join("views", readdirSync(join(at.dir, "views"))[0] ?? "")]) {
    rmSync(join(at.dir, lost), { recursive: true });
    expect(await at.store.resolve(request)).toEqual(model);
    expect(readFileSync(model.path).equals(content)).toBe(true);
  }
  rmSync(model.path);
  expect(await at.store.fetch(request, fetchOptions())).toEqual(model);
  expect(readFileSync(model.path).equals(content)).toBe(true);
  expect(origin.seen.length).toBe(asked);
});

test("a model whose blob and link were removed is fetched and linked again", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf` };
  const model = await at.store.fetch(request, fetchOptions());
  rmSync(model.path);
  rmSync(join(at.dir, blob));
  expect(await at.store.resolve(request)).toBeUndefined();
  expect(await at.store.fetch(request, fetchOptions())).toEqual(model);
  expect(readFileSync(model.path).equals(content)).toBe(true);
});

test("an emptied store folder is refilled while the agent runs, and its index is on disk for the next start", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf` };
  const model = await at.store.fetch(request, fetchOptions());
  for (const lost of ["", "partial", "blobs"]) {
    rmSync(join(at.dir, lost), { recursive: true });
    await at.store.noteSpeed(sha256(content), 50);
    expect(await at.store.fetch(request, fetchOptions())).toEqual(model);
    expect(readFileSync(model.path).equals(content)).toBe(true);
  }
  rmSync(join(at.dir, "refs"), { recursive: true });
  expect(await at.store.resolve(request)).toEqual(model);
  expect(await (await at.reopen()).resolve(request)).toEqual(model);
});

test("a store that is opened read-only repairs nothing and removes nothing", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/m.gguf", content);
  const request = { source: `${origin.url}/m.gguf` };
  const model = await at.store.fetch(request, fetchOptions());
  rmSync(join(at.dir, "views"), { recursive: true });
  const reader = await at.reopen({ isReadOnly: true });
  expect(await reader.resolve(request)).toEqual(model);
  expect(readdirSync(at.dir)).not.toContain("views");
  chmodSync(join(at.dir, blob), 0o600);
  writeFileSync(join(at.dir, blob), "damaged");
  expect(await reader.resolve(request)).toBeUndefined();
  expect(readFileSync(join(at.dir, blob), "utf8")).toBe("damaged");
});

test("two files of a model whose names differ only in case are refused on any file system", async () => {
  await using origin = await startOrigin();
  await using at = await startStore();
  origin.serve("/Model.gguf", content);
  origin.serve("/model.GGUF", ggufBytes(100_000, 2));
  const request = { source: `${origin.url}/Model.gguf`, files: ["model.GGUF"] };
  await expect(at.store.fetch(request, fetchOptions())).rejects.toMatchObject({
    code: "FileNameNotAllowed",
    message: expect.stringContaining("Model.gguf"),
  });
});
