import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { sha256Of } from "../release/manifest.ts";
import { changesOf, listEngines, recordedFrom } from "./store.ts";

test("a version whose program was replaced by a link to another file has changed", async () => {
  await using prefix = await temporaryFolder();
  const folder = path.join(prefix.path, "engines", "llamacpp", "b1-0");
  const [file, link] = [path.join(folder, "files", "bin", "llama-server"), path.join(folder, "llama-server")];
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, "program", { mode: 0o755 });
  const files = { "bin/llama-server": await sha256Of(file) };
  const record = { version: "b1", sha256: "0", from: "x", installedAt: "2026-01-01", files, links: {} };
  writeFileSync(path.join(folder, "engine.json"), JSON.stringify(record));
  const changes = async (target: string | undefined) => {
    rmSync(link, { force: true });
    if (target !== undefined) symlinkSync(target, link);
    const [engine] = await listEngines(prefix.path);
    return engine && changesOf(engine, process.getuid?.() ?? 0);
  };
  expect(await changes("files/bin/llama-server")).toEqual([]);
  for (const target of ["/bin/true", "files/bin/other", "files/bin/../../../llama-server", undefined])
    expect(await changes(target), target).toEqual(["llama-server leads to no installed file"]);
});

test.each([
  ["/tmp/a?b.tar.gz", "/tmp/a?b.tar.gz"],
  ["https://example.com/a.tar.gz", "https://example.com/a.tar.gz"],
  ["https://bucket.example.com/a.tar.gz?X-Amz-Signature=secret#x", "https://bucket.example.com/a.tar.gz"],
  ["https://user:secret@example.com:8443/a.tar.gz", "https://example.com:8443/a.tar.gz"],
])("the record of an engine from %s has no secret of its URL", (from, kept) => {
  expect(recordedFrom(from)).toBe(kept);
});
