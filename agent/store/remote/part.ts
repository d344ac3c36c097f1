/** A download that is not complete: its bytes, and what is needed to resume it. */
import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import type { Validator } from "../../../src/hub/validator.ts";
import { systemCode, writeFileAtomic } from "../../atomic-file.ts";

export const validatorSchema = z.strictObject({
  etag: z.string().optional(),
  lastModified: z.string().optional(),
  totalBytes: z.number().int().nonnegative().optional(),
});

const metaSchema = z.strictObject({ url: z.string(), boot: z.string(), validator: validatorSchema });

export interface Part {
  readonly path: string;
  readonly metaPath: string;
}

export interface OpenPart {
  readonly file: FileHandle;
  readonly hash: Hash;
  readonly sizeBytes: number;
  readonly validator: Validator;
}

const READ_BYTES = 1 << 20;

/** The part file of one content, named by its key. */
export function partAt(folder: string, key: string): Part {
  return { path: join(folder, `${key}.part`), metaPath: join(folder, `${key}.json`) };
}

/** What a download knows of its part from the previous attempt. */
export interface PartMemory {
  hash?: Hash;
  sizeBytes: number;
}

/**
 * Opens a part to resume it. The hash state is that of the attempt before where the size still fits, else it is rebuilt by
 * reading the part once, which can be aborted: a large part takes minutes. After a reboot only
 * a part with a known checksum is trusted: what was not synced may be holes.
 */
export async function openPart(
  part: Part,
  trust: { url: string; boot: string; hasChecksum: boolean },
  { memory, signal }: { readonly memory: PartMemory; readonly signal: AbortSignal },
): Promise<OpenPart> {
  const meta = await readMeta(part);
  const file = await open(part.path, "a+", 0o600);
  try {
    const isUsable =
      meta !== undefined && (trust.hasChecksum || (meta.boot === trust.boot && meta.url === trust.url));
    if (!isUsable) await file.truncate(0);
    const { size } = await file.stat();
    const known = size > 0 && size === memory.sizeBytes ? memory.hash : undefined;
    const hash = known ?? createHash("sha256");
    const sizeBytes = known === undefined ? await readInto(file, hash, signal) : size;
    // Another address for the same checksum: its validators say nothing about this one.
    const validator = isUsable && meta.url === trust.url ? meta.validator : {};
    return { file, hash, sizeBytes, validator };
  } catch (error) {
    await file.close();
    throw error;
  }
}

export async function writeMeta(part: Part, meta: z.infer<typeof metaSchema>): Promise<void> {
  await writeFileAtomic(part.metaPath, JSON.stringify(meta));
}

export async function dropPart(part: Part): Promise<void> {
  await rm(part.path, { force: true });
  await rm(part.metaPath, { force: true });
}

async function readMeta(part: Part): Promise<z.infer<typeof metaSchema> | undefined> {
  try {
    const parsed = metaSchema.safeParse(JSON.parse(await readFile(part.metaPath, "utf8")));
    return parsed.success ? parsed.data : undefined;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function readInto(file: FileHandle, hash: Hash, signal: AbortSignal): Promise<number> {
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  let position = 0;
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return position;
    hash.update(buffer.subarray(0, bytesRead));
    position += bytesRead;
  }
}
