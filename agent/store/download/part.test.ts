import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { CHUNK_BYTES, PrefixHash } from "../content/prefix-hash.ts";
import { type DownloadPart, openPart, partAt, writeMeta } from "./part.ts";

const url = new URL("https://origin.test/m.gguf");
const boot = "this boot";
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
  await writeMeta(part, { url: url.href, boot, validator: {} });
  const open = async (
    known: Pick<DownloadPart, "hash" | "hashedBytes">,
    { signal = new AbortController().signal, wholeChunks = false } = {},
  ) => {
    Object.assign(part, known);
    const opened = await openPart(part, { url }, { boot, signal }, wholeChunks);
    await opened.file.close();
    return opened;
  };
  return { open, part };
}

test("a retry continues with the hash of the previous attempt and does not reread the part", async () => {
  const { open } = await partWith("on disk");
  const opened = await open({ hash: hashOf("so far!"), hashedBytes: 7 });
  expect(opened.sizeBytes).toBe(7);
  expect(opened.hash.digest()).toBe(sha256("so far!").digest("hex"));
});

test("complete chunks keep their hash when the remaining bytes are dropped", async () => {
  const [onDisk, soFar] = ["a", "b"].map((text) => text.repeat(CHUNK_BYTES)) as [string, string];
  const { open, part } = await partWith(`${onDisk}rest`);
  const opened = await open(
    { hash: hashOf(`${soFar}rest`), hashedBytes: CHUNK_BYTES + 4 },
    { wholeChunks: true },
  );
  expect(opened.sizeBytes).toBe(CHUNK_BYTES);
  expect(part.hashedBytes).toBe(CHUNK_BYTES);
  expect(opened.hash.digest()).toBe(sha256(soFar).digest("hex"));
});

test("a part is read again if its size differs from that of the previous attempt", async () => {
  const { open } = await partWith("on disk");
  const opened = await open({ hash: hashOf("so far"), hashedBytes: 6 });
  expect(opened.hash.digest()).toBe(sha256("on disk").digest("hex"));
});

test("reading a part stops when the download is aborted", async () => {
  const { open } = await partWith("on disk");
  const signal = AbortSignal.abort(new Error("replica deleted"));
  await expect(open({ hashedBytes: 0 }, { signal })).rejects.toThrow("replica deleted");
});
