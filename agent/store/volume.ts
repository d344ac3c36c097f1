/** Fetches one model to a folder of a volume, for a download Job. It opens a store, as hosts do, in that folder. */
import { randomUUID } from "node:crypto";
import { chmod, readdir, readFile, readlink, rename, stat, symlink } from "node:fs/promises";
import { join, relative } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { ggufSchema } from "../../src/api/fields/gguf.ts";
import type { FetchResult } from "../../src/models/fetch-result.ts";
import { defaultFormat, parseSource } from "../../src/models/source/parse.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { readBootId } from "../host/reader.ts";
import { withFolderLock } from "./folder-lock.ts";
import { openStore } from "./store.ts";
import type { FetchProgress, ModelFacts, ModelRequest, StoredModel, StoreOptions } from "./types.ts";

export interface VolumeFetch
  extends Pick<
    StoreOptions,
    | "clock"
    | "log"
    | "hfEndpoint"
    | "ollamaRegistry"
    | "allowLoopback"
    | "allowPrivate"
    | "allowedNetworks"
    | "limits"
  > {
  readonly request: ModelRequest;
  /** Mount point of the volume. */
  readonly volume: string;
  /** Folder on the volume; empty for a file:// source, which is used in place. */
  readonly folder: string;
  /** Name of the link, in the folder, to the complete files. */
  readonly link?: string | undefined;
  /** Removes content of other downloads from the folder if the disk would be full. */
  readonly makesRoom?: boolean | undefined;
  /** PEM file with additional trusted authorities for the whole process. */
  readonly certificates?: string | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: FetchProgress) => void;
}

/** Codes of failures that a retry may solve. */
export const RETRYABLE: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "SourceUnreachable",
  "SourceUnavailable",
  "SourceStalled",
  "SourceTruncated",
  "SourceChanged",
]);

/** Expected failures are results too. Rejects with the signal's reason, or for a bug. */
export async function fetchToVolume(options: VolumeFetch): Promise<FetchResult> {
  const { volume, folder, certificates, signal } = options;
  const dir = join(volume, folder);
  const isInPlace = folder === "";
  try {
    if (certificates !== undefined) await trustCertificates(certificates);
    if (isInPlace) return await fetchLocked(options, dir, signal);
    return await withFolderLock({ dir, clock: options.clock, log: options.log, signal }, (whileLocked) =>
      fetchLocked(options, dir, whileLocked),
    );
  } catch (error) {
    signal.throwIfAborted();
    const expected = expectedFailure(error, dir);
    if (expected === undefined) throw error;
    return { code: expected.code, message: expected.message, isRetryable: RETRYABLE.has(expected.code) };
  }
}

async function fetchLocked(options: VolumeFetch, dir: string, signal: AbortSignal): Promise<FetchResult> {
  const { request, volume, folder, link, makesRoom, certificates: _, onProgress, ...settings } = options;
  const isInPlace = folder === "";
  const store = await openStore({
    ...settings,
    dir,
    // Pods may serve other Models of the same source from this folder.
    neverEvicts: makesRoom !== true,
    isReadOnly: isInPlace,
    allowedRoots: isInPlace ? [volume] : [],
    reserveBytes: 0,
    bootId: await readBootId("linux", async () => undefined),
  });
  const model = await store.fetch(request, { signal, onProgress });
  if (!isInPlace) await openForReaders(dir);
  if (!isInPlace && link !== undefined) await linkTo(dir, link, model);
  return resultOf(request, dir, model, await store.inspect(model));
}

function resultOf(request: ModelRequest, dir: string, model: StoredModel, facts: ModelFacts): FetchResult {
  const { problem, gguf, quantization, sizeBytes } = facts;
  // Folders of safetensors have facts of the same kind as a GGUF header.
  const isSafetensors = model.files.some(({ name }) => name.endsWith(".safetensors"));
  const found = isSafetensors ? "safetensors" : gguf && "gguf";
  const named = defaultFormat(parseSource(request.source));
  const format = request.format ?? (found === "gguf" ? found : (named ?? found));
  if (problem !== undefined && format === "gguf") return { ...problem, isRetryable: false };
  const { sha256, revision, mmprojPath } = model;
  return {
    code: "Fetched",
    sha256,
    sizeBytes,
    file: relative(dir, model.path),
    mmproj: mmprojPath === undefined ? undefined : relative(dir, mmprojPath),
    files: model.files.map(({ name }) => name),
    format,
    revision,
    weightsBytes: gguf?.weightsBytes,
    quantization,
    gguf: gguf === undefined ? undefined : ggufSchema.parse(gguf),
  };
}

function expectedFailure(error: unknown, dir: string): MetalbridgeError | undefined {
  if (error instanceof MetalbridgeError) return error;
  const code = systemCode(error);
  const errorOf = (known: ErrorCode, text: string) =>
    new MetalbridgeError(known, `${dir}: ${text}`, undefined, { cause: error });
  if (code === "ENOSPC" || code === "EDQUOT") return errorOf("DiskFull", "no space left on the volume");
  if (code === "EACCES" || code === "EPERM" || code === "EROFS")
    return errorOf("VolumeNotWritable", `the volume is not writable for this user (${code})`);
  return undefined;
}

/** Gives other users access, because engines run as other users and the store creates its folders for its own user only. */
async function openForReaders(dir: string): Promise<void> {
  const folders = [dir, join(dir, "blobs"), join(dir, "blobs", "sha256"), join(dir, "views")];
  const below = await readdir(join(dir, "views"), { recursive: true, withFileTypes: true });
  const views = below
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name));
  for (const folder of [...folders, ...views]) {
    const { mode } = await stat(folder);
    if ((mode & 0o055) !== 0o055) await chmod(folder, (mode & 0o7777) | 0o055);
  }
}

/**
 * Creates the link. It is relative, because engines mount the folder at another path. An existing link to other content is
 * replaced atomically, because other pods may read through it.
 */
async function linkTo(dir: string, name: string, { path }: StoredModel): Promise<void> {
  const view = relative(dir, path).split("/", 2).join("/");
  const link = join(dir, name);
  if ((await readlink(link).catch(() => undefined)) === view) return;
  const temporary = `${link}.${randomUUID()}`;
  await symlink(view, temporary);
  await rename(temporary, link);
}

async function trustCertificates(path: string): Promise<void> {
  try {
    setDefaultCACertificates([...getCACertificates("default"), await readFile(path, "utf8")]);
  } catch (error) {
    const code = systemCode(error) ?? (error instanceof Error ? error.message : String(error));
    const message = `${path} cannot be used as a certificate file: ${code}`;
    throw new MetalbridgeError("FileUnreadable", message, undefined, { cause: error });
  }
}
