/** Uses local model files in place if they are inside the allowed roots. */
import { createHash } from "node:crypto";
import { constants, createReadStream, type Stats } from "node:fs";
import { access, readdir, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, resolve, sep } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { SourceFailure } from "../../src/hub/failure.ts";
import { checkFileName } from "../../src/models/source/file-name.ts";
import { selectFiles } from "../../src/models/source/select.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { firstBytesCheck } from "./download/body.ts";
import type { FetchOptions, ModelRequest, StoredFile, StoredModel } from "./types.ts";

/** Cached checksums, keyed by the identity of the file's current content. */
export type ChecksumMemory = Map<string, string>;

/** Resolves to the model at an absolute path after checking every file. Throws MetalbridgeError. */
export async function findInPlace(
  path: string,
  request: ModelRequest,
  roots: readonly string[],
): Promise<StoredModel> {
  const main = await inspect(path, roots);
  const isFolder = main.isDirectory();
  const format = request.format ?? "gguf";
  const names = await fileNames(path, isFolder, request);
  const folder = isFolder ? path : dirname(path);
  const files: StoredFile[] = [];
  for (const name of names) files.push(await describe(join(folder, name), name, roots, format));
  const first = files[0];
  if (first === undefined) throw new MetalbridgeError("SourceNotFound", `${path} contains no model file`);
  const projector = await findProjector(folder, request, roots, format);
  const all = projector === undefined ? files : [...files, projector];
  return {
    path: isFolder && format !== "gguf" ? path : first.path,
    mmprojPath: projector?.path,
    sizeBytes: all.reduce((sum, file) => sum + file.sizeBytes, 0),
    files: all,
  };
}

/** Hashes the first file and compares its checksum. An unchanged file is not hashed again. */
export async function verifyInPlace(
  model: StoredModel,
  expected: string,
  memory: ChecksumMemory,
  options: FetchOptions,
): Promise<StoredModel> {
  const first = model.files[0];
  if (first === undefined) return model;
  const before = await identity(first.path);
  const sha256 = memory.get(before) ?? (await hashFile(first, options));
  // A file that was written during the read has the checksum of neither content.
  if ((await identity(first.path)) === before) memory.set(before, sha256);
  checkChecksum(first.path, sha256, expected);
  return { ...model, sha256, files: [{ ...first, sha256 }, ...model.files.slice(1)] };
}

/** Throws MetalbridgeError with ChecksumMismatch. */
export function checkChecksum(path: string, sha256: string, expected: string): void {
  if (sha256 === expected.toLowerCase()) return;
  throw new MetalbridgeError(
    "ChecksumMismatch",
    `${path} has sha256 ${sha256}, expected ${expected.toLowerCase()}`,
  );
}

/** The cached checksum of the file's current content, if any. */
export async function knownChecksum(path: string, memory: ChecksumMemory): Promise<string | undefined> {
  return memory.get(await identity(path));
}

async function identity(path: string): Promise<string> {
  const { dev, ino, size, mtimeMs } = await stat(path);
  return `${path} ${dev} ${ino} ${size} ${mtimeMs}`;
}

async function hashFile(file: StoredFile, { signal, onProgress }: FetchOptions): Promise<string> {
  const hash = createHash("sha256");
  let bytes = 0;
  const chunks: AsyncIterable<Buffer> = createReadStream(file.path, { highWaterMark: 1 << 20, signal });
  for await (const chunk of chunks) {
    hash.update(chunk);
    bytes += chunk.length;
    onProgress?.({ bytes, totalBytes: file.sizeBytes });
  }
  return hash.digest("hex");
}

async function fileNames(path: string, isFolder: boolean, request: ModelRequest): Promise<readonly string[]> {
  const { files = [], ignorePatterns, format = "gguf", quantization } = request;
  let available: readonly string[] | undefined;
  if (isFolder && files.length === 0) {
    const entries = await readdir(path, { withFileTypes: true });
    available = entries.flatMap((entry) => (entry.isDirectory() ? [] : [entry.name])).sort();
  }
  const named = isFolder ? undefined : basename(path);
  const selector = { files, ignorePatterns, format, quantization };
  return selectFiles({ shown: path, named, available }, selector).files;
}

async function findProjector(
  folder: string,
  request: ModelRequest,
  roots: readonly string[],
  format: string,
): Promise<StoredFile | undefined> {
  if (request.mmproj === undefined) return undefined;
  const path = request.mmproj.replace(/^file:\/\//, "");
  const absolute = isAbsolute(path) ? path : join(folder, checkFileName(path));
  return { ...(await describe(absolute, basename(absolute), roots, format)), isProjector: true };
}

async function describe(
  path: string,
  name: string,
  roots: readonly string[],
  format: string,
): Promise<StoredFile> {
  const info = await inspect(path, roots);
  if (!info.isFile()) throw new MetalbridgeError("FileUnreadable", `${path} is not a regular file`);
  if (info.size === 0) throw new MetalbridgeError("SourceEmpty", `${path} has zero bytes`);
  if (format === "gguf") await checkMagic(path, name);
  return { name, path, sizeBytes: info.size };
}

async function checkMagic(path: string, name: string): Promise<void> {
  try {
    for await (const chunk of createReadStream(path, { end: 63 }) as AsyncIterable<Buffer>) {
      firstBytesCheck({ name, isGguf: true }, undefined)(chunk);
    }
  } catch (error) {
    throw error instanceof SourceFailure ? error.error : error;
  }
}

/** Resolves links before comparing with the roots, because a link inside a root may point anywhere. */
const ESCAPES = "; only file:// URLs are percent-encoded: write a plain path with its spaces";

async function inspect(path: string, roots: readonly string[]): Promise<Stats> {
  try {
    const real = await resolveInside(path, roots);
    if (real === "outside")
      throw new MetalbridgeError(
        "SourceNotAllowed",
        `${path} is outside of this host's model roots (${roots.join(", ") || "none are configured"})`,
        {
          summary:
            "move the file into a model root, or add its folder to modelRoots in the agent's configuration and restart the agent",
        },
      );
    await access(real, constants.R_OK);
    return await stat(real);
  } catch (cause) {
    const code = systemCode(cause) ?? "";
    if (["ENOENT", "ENOTDIR"].includes(code))
      throw new MetalbridgeError(
        "SourceNotFound",
        `${path} does not exist on this host${/%[0-9a-f]{2}/i.test(path) ? ESCAPES : ""}`,
        undefined,
        { cause },
      );
    if (["EACCES", "EPERM", "ELOOP"].includes(code))
      throw new MetalbridgeError("FileUnreadable", `the agent may not read ${path}`, undefined, { cause });
    throw cause;
  }
}

/** The path with links resolved, if both the path and its target are inside the roots. For a path inside, throws like realpath. */
export async function resolveInside(path: string, roots: readonly string[]): Promise<string | "outside"> {
  const realRoots = await Promise.all(roots.map((root) => realpath(root).catch(() => resolve(root))));
  const isInside = (candidate: string, root: string): boolean =>
    candidate === root || candidate.startsWith(root.endsWith(sep) ? root : root + sep);
  // The name is checked first, so that no request can probe which files exist outside.
  const lexical = resolve(path);
  const allowed = [...roots.map((root) => resolve(root)), ...realRoots];
  if (!allowed.some((root) => isInside(lexical, root))) return "outside";
  const real = await realpath(path);
  return realRoots.some((root) => isInside(real, root)) ? real : "outside";
}
