/** An incomplete download: its bytes, and the metadata to resume it. */
import { constants } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { plainUrl } from "../../../src/hub/failure.ts";
import type { Validator } from "../../../src/hub/validator.ts";
import { systemCode, writeFileAtomic } from "../../../src/util/atomic-file.ts";
import { diskFull, readDiskSpace } from "../content/disk.ts";
import { validatorSchema } from "../content/finished-downloads.ts";
import { readJson } from "../content/persisted-json.ts";
import { CHUNK_BYTES, PrefixHash } from "../content/prefix-hash.ts";

const metaSchema = z.strictObject({
  url: z.string(),
  boot: z.string(),
  validator: validatorSchema,
  /** Set if several connections wrote the part: after this offset it may have holes. */
  contiguousBytes: z.number().int().nonnegative().optional(),
});

/** The files of a part, and the state of its previous attempt. */
export interface DownloadPart {
  readonly path: string;
  readonly metaPath: string;
  /** Hash of the first `hashedBytes` bytes. */
  hash?: PrefixHash;
  hashedBytes: number;
  /** True if several connections wrote the part. After a checksum mismatch, the next attempt uses one connection. */
  isShared?: boolean;
}

export interface OpenPart {
  readonly file: FileHandle;
  readonly hash: PrefixHash;
  readonly sizeBytes: number;
  readonly validator: Validator;
}

export const READ_BYTES = 256 << 10;

/** The part file of one content, named by its key. */
export function partAt(folder: string, key: string): DownloadPart {
  return { path: join(folder, `${key}.part`), metaPath: join(folder, `${key}.json`), hashedBytes: 0 };
}

/**
 * Opens a part to resume it. The hash state of the previous attempt is reused if the size matches. Otherwise the part is
 * read again, which can be aborted because a large part takes minutes. After a reboot only a part with a stated checksum is
 * trusted, because bytes that were not synced may be holes. With `wholeChunks`, bytes after the last complete chunk are dropped.
 */
export async function openPart(
  part: DownloadPart,
  { url, sha256 }: { readonly url: URL; readonly sha256?: string | undefined },
  { boot, signal }: { readonly boot: string; readonly signal: AbortSignal },
  wholeChunks = false,
): Promise<OpenPart> {
  const meta = await readJson(part.metaPath, metaSchema);
  const file = await open(part.path, constants.O_RDWR | constants.O_CREAT, 0o600);
  try {
    const isSame = meta?.url === plainUrl(url);
    const isUsable = meta !== undefined && (sha256 !== undefined || (meta.boot === boot && isSame));
    if (!isUsable) await file.truncate(0);
    else if (meta.contiguousBytes !== undefined) await dropHoles(part, file, meta);
    if (wholeChunks) await dropIncompleteChunk(file, part);
    const { size } = await file.stat();
    const known = size > 0 && size === part.hashedBytes ? part.hash : undefined;
    const hash = known ?? new PrefixHash();
    const sizeBytes = known === undefined ? await hashRange(file, hash, {}, signal) : size;
    // Validators of another address do not apply to this one, even with the same checksum.
    const validator = isUsable && isSame ? meta.validator : {};
    return { file, hash, sizeBytes, validator };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function dropIncompleteChunk(file: FileHandle, part: DownloadPart): Promise<void> {
  const { size } = await file.stat();
  const incompleteBytes = size % CHUNK_BYTES;
  if (incompleteBytes === 0) return;
  await file.truncate(size - incompleteBytes);
  if (size !== part.hashedBytes) return;
  part.hash?.dropIncompleteChunk();
  part.hashedBytes = size - incompleteBytes;
}

/** Bytes of its part that a download frees after it has filled the disk. */
const FREED_BYTES = 64 << 20;

/** Frees some space after a disk-full error, because otherwise no program on this machine can write. The next attempt resumes the remaining part. */
export async function truncateIfDiskFull(
  error: unknown,
  { file }: OpenPart,
  part: DownloadPart,
  { name }: { readonly name: string },
): Promise<unknown> {
  if (systemCode(error) !== "ENOSPC" && systemCode(error) !== "EDQUOT") return error;
  const { freeBytes } = await readDiskSpace(dirname(part.path));
  const { size } = await file.stat();
  await file.truncate(Math.max(0, size - FREED_BYTES));
  return diskFull({ what: name, freeBytes, reserveBytes: 0, cause: error });
}

export async function writeMeta(part: DownloadPart, meta: z.infer<typeof metaSchema>): Promise<void> {
  await writeFileAtomic(part.metaPath, JSON.stringify(meta));
}

export async function dropPart(part: DownloadPart): Promise<void> {
  await rm(part.path, { force: true });
  await rm(part.metaPath, { force: true });
}

/** Truncates the part to its contiguous bytes, and then removes that offset from the metadata: the next attempt appends contiguously. */
async function dropHoles(
  part: DownloadPart,
  file: FileHandle,
  meta: z.infer<typeof metaSchema>,
): Promise<void> {
  const { contiguousBytes = 0, ...contiguousMeta } = meta;
  const { size } = await file.stat();
  if (size > contiguousBytes) await file.truncate(contiguousBytes);
  await writeMeta(part, contiguousMeta);
}

/** Hashes a range of the file, by default up to its end. Resolves to the offset after the last hashed byte. */
export async function hashRange(
  file: FileHandle,
  hash: PrefixHash,
  { from = 0, to = Number.POSITIVE_INFINITY }: { readonly from?: number; readonly to?: number },
  signal: AbortSignal,
  buffer = Buffer.allocUnsafeSlow(READ_BYTES),
): Promise<number> {
  let position = from;
  while (position < to) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, to - position), position);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
  return position;
}
