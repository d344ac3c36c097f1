/** Creates a model in a server under the agent's own name and with the service's settings, from files of the store or from a pulled model. */
import { createHash } from "node:crypto";
import { once } from "node:events";
import { constants, createReadStream } from "node:fs";
import { copyFile, link, mkdir, realpath, rename, rm, stat } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { ollamaLoadFailure } from "../../../src/engines/ollama/exit.ts";
import type { OllamaSettings } from "../../../src/engines/ollama/settings.ts";
import type { RunSerialized } from "../../../src/util/serializer.ts";
import type { StoredFile } from "../../store/types.ts";
import type { Address } from "../driver/http.ts";
import { weightsIdentity } from "../driver/weights.ts";
import { hasBlob, OllamaRejection, streamOllama } from "./api.ts";

/** Time for the server to read all metadata of the file; nothing is copied. */
const CREATE_SILENCE_MS = 120_000;
/** A server that reads nothing from an upload for this long is stuck. */
const UPLOAD_SILENCE_MS = 60_000;

/** Files of the store, or the name of a model that the server has pulled. */
export type ModelOrigin = { readonly files: readonly StoredFile[] } | { readonly from: string };

/** Throws for files that Ollama cannot load, before any request to it. */
export function requireLoadableFiles(files: readonly StoredFile[]): void {
  const parts = files.filter(({ isProjector }) => isProjector !== true).length;
  if (parts <= 1) return;
  const message = `Ollama cannot load a GGUF that is split into ${parts} files`;
  const summary = "set spec.runtime to llamacpp, or merge the files (llama-gguf-split --merge)";
  throw new MetalbridgeError("EngineSettingsRefused", message, { summary });
}

/** Checksums of files that have none in the store, by their `weightsIdentity`. */
export type ComputedDigests = Map<string, string>;

/** `blobs`: the folder of a server that the agent started, into which files are linked; absent: they are uploaded. */
export async function createModel(
  address: Address,
  model: string,
  origin: ModelOrigin,
  { parameters }: OllamaSettings,
  options: {
    readonly blobs: string | undefined;
    readonly digests: ComputedDigests;
    readonly inTurn: RunSerialized;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { signal, inTurn } = options;
  const hashed = "from" in origin ? [] : await hashFiles(origin.files, options);
  try {
    await inTurn(async () => {
      const source =
        "from" in origin ? { from: origin.from } : { files: await placeFiles(address, hashed, options) };
      const body = { model, ...source, parameters };
      await streamOllama(address, "/api/create", body, { signal, silenceMs: () => CREATE_SILENCE_MS });
    });
  } catch (error) {
    if (!(error instanceof OllamaRejection)) throw error;
    const { code, message } = ollamaLoadFailure(error.message);
    throw new MetalbridgeError(code, message);
  }
}

type Hashed = readonly (readonly [StoredFile, string])[];

async function hashFiles(
  files: readonly StoredFile[],
  { digests, signal }: Parameters<typeof createModel>[4],
): Promise<Hashed> {
  const hashed: [StoredFile, string][] = [];
  for (const file of files) {
    const identity = await weightsIdentity([file]);
    const sha256 = file.sha256 ?? digests.get(identity) ?? (await hashFile(file.path, signal));
    digests.set(identity, sha256);
    hashed.push([file, sha256]);
  }
  return hashed;
}

async function placeFiles(
  address: Address,
  files: Hashed,
  { blobs, signal }: Parameters<typeof createModel>[4],
): Promise<Record<string, string>> {
  const placed: Record<string, string> = {};
  for (const [file, sha256] of files) {
    if (blobs === undefined || !(await place(file, join(blobs, `sha256-${sha256}`))))
      await upload(address, file, sha256, signal);
    placed[file.isProjector === true ? "projector.gguf" : "model.gguf"] = `sha256:${sha256}`;
  }
  return placed;
}

/** A clone shares its blocks until one is written; a link is the same file. False if the file system supports neither. */
async function place({ path, sizeBytes }: StoredFile, target: string): Promise<boolean> {
  const found = await stat(target).catch(() => undefined);
  if (found?.size === sizeBytes) return true;
  await mkdir(join(target, ".."), { recursive: true });
  const temporary = `${target}-metalbridge`;
  await rm(temporary, { force: true });
  const real = await realpath(path);
  try {
    await copyFile(real, temporary, constants.COPYFILE_FICLONE_FORCE).catch(() => link(real, temporary));
  } catch {
    return false;
  }
  await rename(temporary, target);
  return true;
}

/** The server computes the checksum itself. */
async function upload(
  { host, port }: Address,
  { path: file, sizeBytes }: StoredFile,
  sha256: string,
  signal: AbortSignal,
): Promise<void> {
  const path = `/api/blobs/sha256:${sha256}`;
  if (await hasBlob({ host, port }, sha256, signal)) return;
  const headers = { "content-type": "application/octet-stream", "content-length": sizeBytes };
  const call = request({ host, port, path, method: "POST", agent: false, signal, headers });
  call.setTimeout(UPLOAD_SILENCE_MS, () => call.destroy(new Error("the upload stalled")));
  const [[response]] = await Promise.all([
    once(call, "response") as Promise<[IncomingMessage]>,
    pipeline(createReadStream(file), call),
  ]);
  response.resume();
  if (response.statusCode !== 201 && response.statusCode !== 200)
    throw new Error(`Ollama answered the upload of ${file} with HTTP ${response.statusCode}`);
}

async function hashFile(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, { signal });
  return hash.digest("hex");
}
