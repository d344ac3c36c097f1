/** Inspects the files of a stored model: sizes and the GGUF headers of all parts. Each file is read once. */

import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import { basename, extname } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { createGgufReader } from "../../src/models/gguf/header.ts";
import { summarizeGguf } from "../../src/models/gguf/summary.ts";
import type { GgufHeader } from "../../src/models/gguf/types.ts";
import { parseMlxConfig, parseSafetensorsIndex } from "../../src/models/mlx/config.ts";
import { safetensorsQuantization } from "../../src/models/mlx/quantization.ts";
import { summarizeMlx } from "../../src/models/mlx/summary.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { setBounded } from "../../src/util/bounded-map.ts";
import type { ModelFacts, StoredFile, StoredModel } from "./types.ts";

/** Size of the first read. Most headers fit; the vocabulary of a large model takes several MiB. */
const FIRST_BYTES = 64 << 10;
const CHUNK_BYTES = 1 << 20;
const MAX_CACHED = 1_024;
/** Typical files have a few KiB; the index of a very large model has several MiB. */
const MAX_CONFIG_BYTES = 32 << 20;

interface CachedHeader {
  /** Size and mtime of the file. */
  readonly version: string;
  readonly header: GgufHeader;
}

/** Caches headers by path, mtime and size. Two concurrent calls may read the same file. */
export function createInspector(): (model: StoredModel) => Promise<ModelFacts> {
  const cache = new Map<string, CachedHeader>();
  return async (model) => {
    const { sizeBytes } = model;
    const projectorBytes = sum(model.files.filter((file) => file.isProjector).map((file) => file.sizeBytes));
    const parts = weightsOf(model);
    if (parts.length === 0) return { sizeBytes, projectorBytes, ...(await inspectMlx(model)) };
    try {
      const headers: GgufHeader[] = [];
      for (const part of parts) headers.push(await headerOf(part, cache));
      return { sizeBytes, projectorBytes, ...summarize(headers, parts) };
    } catch (error) {
      if (!(error instanceof MetalbridgeError)) throw error;
      return { sizeBytes, projectorBytes, problem: { code: error.code, message: error.message } };
    }
  };
}

/** The GGUF files of the weights. A single file without an extension also counts. */
function weightsOf({ files }: StoredModel): readonly StoredFile[] {
  const weights = files.filter((file) => !file.isProjector);
  const named = weights.filter(({ name }) => name.toLowerCase().endsWith(".gguf"));
  if (named.length > 0) return named;
  return weights.length === 1 && extname(weights[0]?.name ?? "") === "" ? weights : [];
}

function summarize(headers: readonly GgufHeader[], parts: readonly StoredFile[]): Pick<ModelFacts, "gguf"> {
  const [first, ...others] = headers;
  if (first === undefined) return {};
  const gguf = summarizeGguf(first, ...others);
  // For an unknown tensor type the file size is used, because a file is never smaller than its tensors.
  return { gguf: { ...gguf, weightsBytes: gguf.weightsBytes ?? sum(parts.map((part) => part.sizeBytes)) } };
}

async function headerOf({ path, name }: StoredFile, cache: Map<string, CachedHeader>): Promise<GgufHeader> {
  try {
    const file = await open(path);
    try {
      const { size, mtimeMs } = await file.stat();
      const version = `${size} ${mtimeMs}`;
      const cached = cache.get(path);
      if (cached?.version === version) return cached.header;
      const header = await readHeader(file, size);
      setBounded(cache, path, { version, header }, MAX_CACHED);
      return header;
    } finally {
      await file.close();
    }
  } catch (error) {
    const code = error instanceof MetalbridgeError ? error.code : "FileUnreadable";
    if (!(error instanceof MetalbridgeError) && systemCode(error) === undefined) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new MetalbridgeError(code, `${name}: ${message}`, undefined, { cause: error });
  }
}

async function readHeader(file: FileHandle, size: number): Promise<GgufHeader> {
  const reader = createGgufReader();
  let chunk = new Uint8Array(Math.min(FIRST_BYTES, Math.max(1, size)));
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, chunk.length);
    if (bytesRead === 0) throw reader.cutOff();
    const progress = reader.feed(chunk.subarray(0, bytesRead));
    if (progress.done) {
      const least = progress.header.dataOffset + progress.header.dataBytes;
      if (size >= least) return progress.header;
      throw new MetalbridgeError(
        "GgufTruncated",
        `the file has ${size} bytes, its header describes ${least}`,
      );
    }
    if (chunk.length < CHUNK_BYTES) chunk = new Uint8Array(CHUNK_BYTES);
  }
}

/** Inspects a folder of safetensors by its `config.json` and the size of its weights. Empty without a readable configuration: such a model is not admitted. */
async function inspectMlx({
  files,
}: StoredModel): Promise<Pick<ModelFacts, "gguf" | "problem" | "quantization">> {
  const weights = files.filter(({ name }) => name.endsWith(".safetensors"));
  const text = await textOf(files, "config.json");
  const config = parseMlxConfig(text);
  if (weights.length === 0 || config === undefined) return {};
  const onDisk = sum(weights.map(({ sizeBytes }) => sizeBytes));
  const indexed = parseSafetensorsIndex(await textOf(files, "model.safetensors.index.json")) ?? 0;
  if (indexed > onDisk) {
    const message = `the weights have ${onDisk} bytes, their index describes ${indexed}`;
    return { problem: { code: "GgufTruncated", message } };
  }
  return { gguf: summarizeMlx(config, onDisk), quantization: safetensorsQuantization(text) };
}

async function textOf(files: StoredModel["files"], name: string): Promise<string> {
  const path = files.find((file) => basename(file.name) === name)?.path;
  if (path === undefined) return "";
  try {
    if ((await stat(path)).size > MAX_CONFIG_BYTES) return "";
    return await readFile(path, "utf8");
  } catch {
    return "";
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
