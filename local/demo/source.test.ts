import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { parseSource } from "../../src/models/source/parse.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { demoSource } from "./source.ts";
import { writeTinyModel } from "./tiny-model.ts";

test("a folder with a blank and a letter that is not ASCII gives a source that leads back to the file", async () => {
  await using folder = await temporaryFolder();
  const found = await demoSource({ dir: path.join(folder.path, "ö ther") });
  expect(found.source).not.toMatch(/\s/);
  expect(parseSource(found.source)).toEqual({ kind: "file", path: found.path });
});

test("a path of this machine may be relative", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "a.gguf");
  await writeTinyModel(file);
  const model = path.relative(process.cwd(), file);
  expect(await demoSource({ dir: folder.path, model })).toEqual({ source: file, path: file });
});

test.for([
  ["nowhere.gguf", "SourceInvalid"],
  ["models/nowhere.gguf", "SourceNotFound"],
  ["./nowhere.gguf", "SourceNotFound"],
  ["/nowhere.gguf", "SourceNotFound"],
  ["file:///nowhere.gguf", "SourceNotFound"],
  ["ollama://llama3", "SourceNotSupported"],
] as const)("%s is %s before anything starts", async ([model, code]) => {
  await using folder = await temporaryFolder();
  await expect(demoSource({ dir: folder.path, model })).rejects.toMatchObject({ code });
});

test("what is elsewhere is passed on as it is", async () => {
  await using folder = await temporaryFolder();
  for (const source of ["hf://org/repo/a.gguf", "https://example.com/a.gguf", "org/repo"])
    expect(await demoSource({ dir: folder.path, model: source })).toEqual({ source });
});

test.for([
  ["a README", "# Metalbridge", "GgufBadMagic"],
  ["a web page", "<!doctype html>", "SourceIsNotAModel"],
  ["a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1", "SourceIsNotAModel"],
  ["an empty file", "", "SourceEmpty"],
  ["a cut-off model", "GGUF\x03\0\0\0", "GgufTruncated"],
] as const)("%s is refused before anything starts", async ([, content, code]) => {
  await using folder = await temporaryFolder();
  const model = path.join(folder.path, "model.gguf");
  await writeFile(model, content);
  await expect(demoSource({ dir: folder.path, model })).rejects.toMatchObject({
    code,
    message: expect.stringContaining(model),
  });
});
