/**
 * Pulls models of the Ollama library, or of the registry that this host's configuration names, with an Ollama server, whose
 * blobs are the model's files. The store fetches from all other registries, because Ollama follows every redirect and does
 * not know the store's rules for addresses.
 */
import { readdir, readFile, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import { ollamaPullFailure } from "../../../src/engines/ollama/exit.ts";
import {
  isPulledByOllama,
  type PulledModel,
  pulledModel,
  pullRequest,
} from "../../../src/engines/ollama/pulled.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import { diskFull } from "../../store/content/disk.ts";
import type { FetchOptions, StoredFile, StoredModel } from "../../store/types.ts";
import type { EngineFetcher } from "../driver/engine.ts";
import type { Address } from "../driver/http.ts";
import { askOfModel, OllamaRejection, type ProgressLine, StreamStalled, streamOllama } from "./api.ts";

/** Ollama prints nothing while it verifies what it has downloaded. */
const VERIFY_MS = 1_800_000;
const SHOW_MS = 10_000;

export interface PullOptions {
  /** The folder OLLAMA_MODELS of the servers that the agent starts; absent: the server was found running, and reports the paths of its files. */
  readonly models: string | undefined;
  readonly registry: string | undefined;
  readonly stallMs: number;
  readonly reserveBytes: number;
  /** Runs a server while the work runs. */
  readonly during: <T>(work: (address: Address) => Promise<T>) => Promise<T>;
}

export function createPuller(options: PullOptions): EngineFetcher {
  let pulls = 0;
  const resolve = (source: string): Promise<StoredModel | undefined> => {
    const name = pulledModel(source, options.registry);
    return options.models === undefined ? queryServer(name, options) : readManifest(name, options.models);
  };
  return {
    takes: (source) => isPulledByOllama(source, options.registry),
    resolve: ({ source }) => resolve(source),
    fetch: async (request, fetching) => {
      const before = await resolve(request.source);
      if (before !== undefined) return before;
      // Only while no server writes parts.
      if (pulls === 0 && options.models !== undefined) await removeBrokenParts(join(options.models, "blobs"));
      pulls += 1;
      await options
        .during((address) => pull(address, pulledModel(request.source, options.registry), options, fetching))
        .finally(() => {
          pulls -= 1;
        });
      const found = await resolve(request.source);
      if (found !== undefined) return found;
      throw new MetalbridgeError("SourceUnavailable", `Ollama pulled ${request.source} and does not have it`);
    },
  };
}

async function pull(
  address: Address,
  name: PulledModel,
  options: PullOptions,
  fetching: FetchOptions,
): Promise<void> {
  const { path, tag } = name;
  const layers = new Map<string, { readonly completed: number; readonly total: number }>();
  const diskIsFull = new AbortController();
  let lastProgress = "";
  const onLine = (line: ProgressLine): boolean => {
    const { digest, total = 0, completed = 0, status } = line;
    // Ollama reports the size of a layer before it downloads the layer, and stops when this request is aborted.
    if (digest !== undefined && !layers.has(digest) && options.models !== undefined) {
      const what = `ollama://${path}:${tag}`;
      requireDiskSpace(options.models, what, total - completed, options.reserveBytes).catch((error) =>
        diskIsFull.abort(error),
      );
    }
    if (digest !== undefined) layers.set(digest, { completed, total });
    const bytes = sum([...layers.values()].map((layer) => layer.completed));
    const totalBytes = sum([...layers.values()].map((layer) => layer.total));
    if (totalBytes > 0) fetching.onProgress?.({ bytes, totalBytes });
    // Ollama repeats the same line many times a second, even while it receives nothing.
    const progress = `${status} ${bytes}`;
    const isProgress = progress !== lastProgress;
    lastProgress = progress;
    return isProgress;
  };
  const signal = AbortSignal.any([fetching.signal, diskIsFull.signal]);
  const silenceMs = (line?: ProgressLine): number =>
    /^(verifying|writing|removing)/.test(String(line?.status)) ? VERIFY_MS : options.stallMs;
  try {
    await streamOllama(address, "/api/pull", pullRequest(name), { signal, silenceMs, onLine });
  } catch (error) {
    fetching.signal.throwIfAborted();
    throw failureOf(error, `${path}:${tag}`);
  }
}

/**
 * A server that was stopped while it recorded the progress of a part leaves an empty record, and every later pull fails with
 * EOF. All parts of that file are removed: if one were missing, Ollama would take the remaining parts for the complete file.
 */
async function removeBrokenParts(blobs: string): Promise<void> {
  const names = (await readdir(blobs).catch(() => [])).filter((name) => name.includes("-partial"));
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(blobs, name))).size));
  const broken = names.filter((name, index) => /-partial-\d+$/.test(name) && sizes[index] === 0);
  const files = new Set(broken.map((name) => name.replace(/-\d+$/, "")));
  const parts = names.filter((name) => files.has(name.replace(/-\d+$/, "")));
  await Promise.all(parts.map((name) => rm(join(blobs, name), { force: true })));
}

function failureOf(error: unknown, model: string): unknown {
  if (error instanceof MetalbridgeError || !(error instanceof Error)) return error;
  const failure = (code: ErrorCode, message: string) =>
    new MetalbridgeError(code, message, undefined, { cause: error });
  if (error instanceof StreamStalled)
    return failure("SourceStalled", `the pull of ${model} stalled: ${error.message}`);
  if (!(error instanceof OllamaRejection))
    return failure("SourceUnavailable", `the pull of ${model} broke off: ${error.message}`);
  const { code, message } = ollamaPullFailure(error.message);
  return failure(code, `cannot pull ${model}: ${message}`);
}

/** Throws `DiskFull`. */
async function requireDiskSpace(
  folder: string,
  what: string,
  neededBytes: number,
  reserveBytes: number,
): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const freeBytes = bavail * bsize;
  if (freeBytes - reserveBytes < neededBytes) throw diskFull({ what, neededBytes, freeBytes, reserveBytes });
}

const manifestSchema = z.object({
  layers: z.array(z.object({ mediaType: z.string(), digest: z.string(), size: z.number().nonnegative() })),
});

/** Reads the model from disk, without a server; undefined if any part of it is missing. */
async function readManifest(
  { host, path, tag }: PulledModel,
  models: string,
): Promise<StoredModel | undefined> {
  const text = await readFile(join(models, "manifests", host, path, tag), "utf8").catch(() => "");
  const manifest = manifestSchema.safeParse(parseJson(text));
  if (!manifest.success) return undefined;
  const files: StoredFile[] = [];
  for (const { mediaType, digest, size } of manifest.data.layers) {
    const kind = /^application\/vnd\.ollama\.image\.(model|projector)$/.exec(mediaType)?.[1];
    if (kind === undefined) continue;
    const blob = join(models, "blobs", digest.replace(":", "-"));
    if ((await stat(blob).catch(() => undefined))?.size !== size) return undefined;
    files.push(fileOf(blob, size, digest, kind === "projector"));
  }
  return modelOf(files);
}

/** Reads the model's files from a server that was found running; undefined if it has no such model or does not answer. */
async function queryServer(name: PulledModel, { during }: PullOptions): Promise<StoredModel | undefined> {
  const { host, path, tag } = name;
  const model = `${host}/${path}:${tag}`;
  const answer = await during((address) =>
    askOfModel({ ...address, path: "/api/show", body: { model }, timeoutMs: SHOW_MS }),
  ).catch(() => ({ failed: "" }));
  if ("failed" in answer || answer.status !== 200) return undefined;
  const shown = z.object({ modelfile: z.string() }).safeParse(parseJson(answer.body));
  const paths = [...(shown.data?.modelfile ?? "").matchAll(/^FROM (\/.+)$/gm)].map(([, found = ""]) => found);
  const files: StoredFile[] = [];
  for (const [index, file] of paths.entries()) {
    const { size } = await stat(file).catch((cause) => {
      const message = `the agent has no permission to read ${file}, in which the Ollama server stores this model`;
      throw new MetalbridgeError("FileUnreadable", message, undefined, { cause });
    });
    files.push(fileOf(file, size, /sha256-([0-9a-f]{64})$/.exec(file)?.[1], index > 0));
  }
  return modelOf(files);
}

function fileOf(
  path: string,
  sizeBytes: number,
  digest: string | undefined,
  isProjector: boolean,
): StoredFile {
  const sha256 = digest?.replace("sha256:", "");
  const name = isProjector ? "projector.gguf" : "model.gguf";
  return { name, path, sizeBytes, sha256, isProjector: isProjector || undefined };
}

function modelOf(files: readonly StoredFile[]): StoredModel | undefined {
  const [main] = files;
  if (main === undefined) return undefined;
  const { path, sha256 } = main;
  const sizeBytes = sum(files.map((file) => file.sizeBytes));
  return { path, sizeBytes, files, sha256 };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
