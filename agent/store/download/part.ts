/** A download that is not complete: its bytes, and what is needed to resume it. */
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
  /** Several connections wrote the part: behind these bytes it may have holes. */
  contiguousBytes: z.number().int().nonnegative().optional(),
});

/** The files of a part, and what its download knows of it from the previous attempt. */
export interface DownloadPart {
  readonly path: string;
  readonly metaPath: string;
  /** Of its first `hashedBytes`. */
  hash?: PrefixHash;
  hashedBytes: number;
  /** Several connections brought it: if it has another checksum than it should, the next attempt uses one. */
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
 * Opens a part to resume it. The hash state is that of the attempt before where the size still fits, else it is rebuilt by
 * reading the part once, which can be aborted: a large part takes minutes. After a reboot only
 * a part with a stated checksum is trusted: what was not synced may be holes. With `wholeChunks`, the rest behind the last
 * whole chunk is dropped.
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
    if (wholeChunks) await keepWholeChunks(file, part);
    const { size } = await file.stat();
    const known = size > 0 && size === part.hashedBytes ? part.hash : undefined;
    const hash = known ?? new PrefixHash();
    const sizeBytes = known === undefined ? await hashRange(file, hash, {}, signal) : size;
    // Another address for the same checksum: its validators say nothing about this one.
    const validator = isUsable && isSame ? meta.validator : {};
    return { file, hash, sizeBytes, validator };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function keepWholeChunks(file: FileHandle, part: DownloadPart): Promise<void> {
  const { size } = await file.stat();
  const rest = size % CHUNK_BYTES;
  if (rest === 0) return;
  await file.truncate(size - rest);
  if (size !== part.hashedBytes) return;
  part.hash?.keepWholeChunks();
  part.hashedBytes = size - rest;
}

/** Bytes of its part that a download frees after it filled the disk. */
const GIVE_BACK_BYTES = 64 << 20;

/** With the disk at zero nothing else on this machine can write: gives some back, and keeps the rest for the next attempt. */
export async function truncateIfDiskFull(
  error: unknown,
  { file }: OpenPart,
  part: DownloadPart,
  { name }: { readonly name: string },
): Promise<unknown> {
  if (systemCode(error) !== "ENOSPC" && systemCode(error) !== "EDQUOT") return error;
  const { freeBytes } = await readDiskSpace(dirname(part.path));
  const { size } = await file.stat();
  await file.truncate(Math.max(0, size - GIVE_BACK_BYTES));
  return diskFull({ what: name, freeBytes, reserveBytes: 0, cause: error });
}

export async function writeMeta(part: DownloadPart, meta: z.infer<typeof metaSchema>): Promise<void> {
  await writeFileAtomic(part.metaPath, JSON.stringify(meta));
}

export async function dropPart(part: DownloadPart): Promise<void> {
  await rm(part.path, { force: true });
  await rm(part.metaPath, { force: true });
}

/** Removes what may have holes, and then the note of it: what the next attempt appends is contiguous. */
async function dropHoles(
  part: DownloadPart,
  file: FileHandle,
  meta: z.infer<typeof metaSchema>,
): Promise<void> {
  const { contiguousBytes = 0, ...rest } = meta;
  const { size } = await file.stat();
  if (size > contiguousBytes) await file.truncate(contiguousBytes);
  await writeMeta(part, rest);
}

/** Hashes a range of the file, or up to its end; the offset behind it. */
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
