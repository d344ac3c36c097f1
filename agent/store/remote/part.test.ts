import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openPart, type PartMemory, partAt, writeMeta } from "./part.ts";
import { CHUNK_BYTES, PrefixHash } from "./prefix-hash.ts";

const trust = { url: "https://origin.test/m.gguf", boot: "this boot", hasChecksum: false };
const hashOf = (text: string): PrefixHash => {
  const hash = new PrefixHash();
  hash.update(Buffer.from(text));
  return hash;
};
const sha256 = (text: string) => createHash("sha256").update(text);

async function partWith(text: string) {
  const folder = await mkdtemp(join(tmpdir(), "mb-part-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const part = partAt(folder, "key");
  await writeFile(part.path, text);
  await writeMeta(part, { url: trust.url, boot: trust.boot, validator: {} });
  const open = async (
    memory: PartMemory,
    { signal = new AbortController().signal, wholeChunks = false } = {},
  ) => {
    const opened = await openPart(part, { ...trust, wholeChunks }, { memory, signal });
    await opened.file.close();
    return opened;
  };
  return { open };
}

test("a retry continues with the hash of the previous attempt and does not reread the part", async () => {
  const { open } = await partWith("on disk");
  const opened = await open({ hash: hashOf("so far!"), sizeBytes: 7 });
  expect(opened.sizeBytes).toBe(7);
  expect(opened.hash.digest()).toBe(sha256("so far!").digest("hex"));
});

test("whole chunks keep the hash that they had when the rest is dropped", async () => {
  const [onDisk, soFar] = ["a", "b"].map((text) => text.repeat(CHUNK_BYTES)) as [string, string];
  const { open } = await partWith(`${onDisk}rest`);
  const memory: PartMemory = { hash: hashOf(`${soFar}rest`), sizeBytes: CHUNK_BYTES + 4 };
  const opened = await open(memory, { wholeChunks: true });
  expect(opened.sizeBytes).toBe(CHUNK_BYTES);
  expect(memory.sizeBytes).toBe(CHUNK_BYTES);
  expect(opened.hash.digest()).toBe(sha256(soFar).digest("hex"));
});

test("a part whose size is not that of the attempt before is read", async () => {
  const { open } = await partWith("on disk");
  const opened = await open({ hash: hashOf("so far"), sizeBytes: 6 });
  expect(opened.hash.digest()).toBe(sha256("on disk").digest("hex"));
});

test("reading a part stops when the download is aborted", async () => {
  const { open } = await partWith("on disk");
  const signal = AbortSignal.abort(new Error("replica deleted"));
  await expect(open({ sizeBytes: 0 }, { signal })).rejects.toThrow("replica deleted");
});
