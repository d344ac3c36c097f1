/**
 * Unpacks the archive of an engine as root. Nothing is written outside the folder: no entry replaces another one, and links
 * are created after all files. An archive with devices or set-user-ID programs, which no engine needs, is refused.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, mkdir, open, realpath, symlink } from "node:fs/promises";
import { dirname, join, normalize } from "node:path/posix";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { type Extract, extract, type Header } from "tar-stream";
import { MetalbridgeError } from "../../src/api/errors.ts";

/** The contents of a folder, by relative path. */
export interface FolderContents {
  /** SHA-256 of regular files. */
  readonly files: Readonly<Record<string, string>>;
  /** Unresolved targets of links. */
  readonly links: Readonly<Record<string, string>>;
}

export interface UnpackLimits {
  readonly bytes: number;
  readonly entries: number;
}

/** An engine with the libraries of a GPU vendor takes about 2 GiB. */
const UNPACK_LIMITS: UnpackLimits = { bytes: 8 * 2 ** 30, entries: 20_000 };
const MAX_DEPTH = 32;
const MAX_PATH = 1_024;
const SET_ID = 0o6000;
/** Size of headers and padding of an entry with a long path and a long link. */
const ENTRY_BYTES = 4_096;
/** Maximum size of the zeros at the end, because archives are padded to a complete record. */
const END_BYTES = 2 ** 20;

type Entry = Extract extends AsyncIterable<infer One> ? One : never;

/** `folder` must exist and be empty. Throws EngineArchiveInvalid or the system error, and leaves the files that were written. */
export async function unpackEngine(
  archive: string,
  folder: string,
  limits = UNPACK_LIMITS,
): Promise<FolderContents> {
  const entries = extract();
  const [read, written] = await Promise.allSettled([
    pipeline(createReadStream(archive), createGunzip(), (chunks) => bounded(chunks, limits), entries),
    writeAll(entries, folder, limits),
  ]);
  // A refused entry also fails the read, so the error of the entry takes precedence.
  if (written.status === "rejected" && isOwn(written.reason)) throw written.reason;
  if (read.status === "rejected") throw readError(read.reason);
  if (written.status === "rejected") throw written.reason;
  return written.value;
}

/** Limits all bytes, including extended headers, padding, and everything after the end. */
function bounded(chunks: AsyncIterable<unknown>, { bytes, entries }: UnpackLimits): AsyncIterable<Buffer> {
  const limit = bytes + entries * ENTRY_BYTES + END_BYTES;
  let total = 0;
  return tapChunks(chunks, ({ length }) => {
    total += length;
    if (total > limit) throw invalidArchive(`the archive decompresses to more than ${limit} bytes`);
  });
}

export function invalidArchive(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("EngineArchiveInvalid", message, undefined, { cause });
}

/** Yields the chunks of a byte stream and calls `inspect` with each chunk first. */
export async function* tapChunks(
  chunks: AsyncIterable<unknown>,
  inspect: (chunk: Buffer) => unknown,
): AsyncIterable<Buffer> {
  for await (const chunk of chunks as AsyncIterable<Buffer>) {
    inspect(chunk);
    yield chunk;
  }
}

async function writeAll(
  entries: AsyncIterable<Entry>,
  folder: string,
  limits: UnpackLimits,
): Promise<FolderContents> {
  const files: Record<string, string> = {};
  const links: Record<string, string> = {};
  let [bytes, count] = [0, 0];
  for await (const entry of entries) {
    const { header } = entry;
    count += 1;
    bytes += header.size;
    if (count > limits.entries) throw invalidArchive(`the archive has more than ${limits.entries} entries`);
    if (bytes > limits.bytes) throw invalidArchive(`the archive holds more than ${limits.bytes} bytes`);
    const path = placeOf(header.name);
    if (header.type === "directory") await mkdir(join(folder, path), { recursive: true }).catch(taken(path));
    else if (header.type === "symlink") links[unused(path, links)] = targetOf(path, header);
    else files[path] = await writeFile(entry, folder, path);
    entry.resume();
  }
  for (const [path, target] of Object.entries(links)) {
    await requireOwnPlace(folder, path);
    await mkdir(join(folder, dirname(path)), { recursive: true }).catch(taken(path));
    await symlink(target, join(folder, path)).catch(taken(path));
  }
  for (const path of Object.keys(links)) await requireInside(folder, path);
  return { files, links };
}

/** The normalized path of an entry within the folder. */
function placeOf(name: string): string {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  const isSafe = !name.startsWith("/") && !parts.includes("..") && !/[\0\\]/.test(name);
  if (isSafe && parts.length <= MAX_DEPTH && name.length <= MAX_PATH) return parts.join("/");
  throw invalidArchive(`${JSON.stringify(name.slice(0, 200))} is not a path within the archive`);
}

function unused(path: string, links: Readonly<Record<string, string>>): string {
  if (Object.hasOwn(links, path) || path === "")
    throw invalidArchive(`${JSON.stringify(path)} is in the archive twice`);
  return path;
}

function targetOf(path: string, { linkname }: Header): string {
  const target = linkname ?? "";
  const leads = normalize(join(dirname(path), target));
  if (target !== "" && !target.startsWith("/") && leads !== ".." && !leads.startsWith("../")) return target;
  throw invalidArchive(`the link ${path} leads out of the archive, to ${target}`);
}

/** The file belongs to this process's account, and only that account may write it. */
async function writeFile(entry: Entry, folder: string, path: string): Promise<string> {
  const { type, mode } = entry.header;
  if (type !== "file" && type !== "contiguous-file")
    throw invalidArchive(`${path} is of type ${type}, which is not unpacked`);
  if ((mode & SET_ID) !== 0)
    throw invalidArchive(`${path} would run with the rights of its owner (set-user-ID)`);
  const hash = createHash("sha256");
  await mkdir(join(folder, dirname(path)), { recursive: true }).catch(taken(path));
  const file = await open(join(folder, path), "wx", (mode & 0o111) === 0 ? 0o644 : 0o755).catch(taken(path));
  const bytes = tapChunks(entry, (chunk) => hash.update(chunk));
  await pipeline(bytes, file.createWriteStream());
  return hash.digest("hex");
}

/** Refuses a link below another link, because it would be created at another path, possibly outside of the folder. */
async function requireOwnPlace(folder: string, path: string): Promise<void> {
  for (let above = dirname(path); above !== "."; above = dirname(above)) {
    const found = await lstat(join(folder, above)).catch(() => undefined);
    if (found?.isSymbolicLink() === true) throw invalidArchive(`the link ${path} is below the link ${above}`);
  }
}

/** Resolves a link, because a link through another link may lead further than its text. */
async function requireInside(folder: string, path: string): Promise<void> {
  const [inside, found] = await Promise.all([
    realpath(folder),
    realpath(join(folder, path)).catch((cause: unknown) => {
      throw invalidArchive(`the link ${path} leads to nothing in the archive`, cause);
    }),
  ]);
  if (!found.startsWith(`${inside}/`)) throw invalidArchive(`the link ${path} leads out of the archive`);
}

/** Handles a path that another entry already uses, possibly with different case on a case-insensitive disk. */
function taken(path: string) {
  return (error: NodeJS.ErrnoException): never => {
    if (!["EEXIST", "ENOTDIR", "EISDIR"].includes(error.code ?? "")) throw error;
    throw invalidArchive(`${JSON.stringify(path)} is in the archive twice`, error);
  };
}

const isOwn = (error: unknown): boolean =>
  error instanceof MetalbridgeError || (error instanceof Error && "syscall" in error);

function readError(error: unknown): unknown {
  if (isOwn(error)) return error;
  const reason = error instanceof Error ? error.message : String(error);
  return invalidArchive(`it is not a .tar.gz archive: ${reason}`, error);
}
