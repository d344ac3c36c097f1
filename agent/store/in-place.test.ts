import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufBytes, sha256 } from "../../test/fixtures/origin.ts";
import { fetchOptions, startStore } from "./fixtures/store.ts";

const content = ggufBytes(3_000_000);

function code(expected: string) {
  return expect.objectContaining({ code: expected });
}

test("files on the host are used in place, but only inside the allowed roots", async () => {
  await using at = await startStore();
  const root = join(at.dir, "models");
  const outside = join(at.dir, "outside.gguf");
  mkdirSync(join(root, "folder"), { recursive: true });
  writeFileSync(join(root, "m.gguf"), content);
  writeFileSync(outside, content);
  symlinkSync(outside, join(root, "link.gguf"));
  writeFileSync(join(root, "empty.gguf"), "");
  writeFileSync(join(root, "page.gguf"), "<!doctype html><p>log in");
  const store = await at.reopen({ allowedRoots: [root] });
  expect(await store.resolve({ source: `file://${root}/m.gguf` })).toMatchObject({
    path: join(root, "m.gguf"),
    sizeBytes: content.length,
  });
  const cases: [string, string][] = [
    [outside, "SourceNotAllowed"],
    [`${root}/../outside.gguf`, "SourceInvalid"],
    [`${root}/link.gguf`, "SourceNotAllowed"],
    ["/etc/passwd", "SourceNotAllowed"],
    [`${root}/none.gguf`, "SourceNotFound"],
    [`${root}/m.gguf/x.gguf`, "SourceNotFound"],
    [`${root}/folder`, "SourceIsNotAModel"],
    [`${root}/empty.gguf`, "SourceEmpty"],
    [`${root}/page.gguf`, "SourceIsNotAModel"],
  ];
  for (const [source, expected] of cases) {
    await expect(store.resolve({ source }), source).rejects.toThrow(code(expected));
    await expect(store.fetch({ source }, fetchOptions()), source).rejects.toThrow(code(expected));
  }
  for (const source of [`${root}/a%20b.gguf`, `file://${root}/a%2520b.gguf`])
    await expect(store.resolve({ source }), source).rejects.toThrow(
      /a%20b\.gguf does not exist .* with its spaces/,
    );
  await expect(store.resolve({ source: "/etc/passwd" })).rejects.toMatchObject({
    remedy: { summary: expect.stringMatching(/^move the file into a model root, or add .* to modelRoots/) },
  });
  const ignorePatterns = ["e*", "link*", "page*"];
  const chosen = { path: join(root, "m.gguf"), sizeBytes: content.length };
  expect(await store.resolve({ source: root, ignorePatterns })).toMatchObject(chosen);
  const none = { source: root, ignorePatterns: ["*.gguf"] };
  await expect(store.resolve(none)).rejects.toThrow(code("FilesExcluded"));
  const pinned = { source: join(root, "m.gguf"), sha256: sha256(content) };
  expect(await store.resolve(pinned)).toBeUndefined();
  expect((await store.fetch(pinned, fetchOptions())).sha256).toBe(pinned.sha256);
  expect((await store.resolve(pinned))?.sha256).toBe(pinned.sha256);
  await expect(store.fetch({ ...pinned, sha256: "0".repeat(64) }, fetchOptions())).rejects.toThrow(
    code("ChecksumMismatch"),
  );
  await expect(store.resolve({ ...pinned, sha256: "0".repeat(64) })).rejects.toThrow(
    code("ChecksumMismatch"),
  );
});
