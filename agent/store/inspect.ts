/** What the files of a stored model say of themselves: sizes, and the GGUF headers of all parts, each file read once. */
import { type FileHandle, open, readFile, stat } from "node:fs/promises";
import { basename, extname } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { createGgufReader } from "../../src/models/gguf/header.ts";
import { summarizeGguf } from "../../src/models/gguf/summary.ts";
import type { GgufHeader } from "../../src/models/gguf/types.ts";
import { parseMlxConfig, parseSafetensorsIndex } from "../../src/models/mlx/config.ts";
import { summarizeMlx } from "../../src/models/mlx/summary.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import type { ModelFacts, StoredFile, StoredModel } from "./types.ts";

/** Most headers fit; the vocabulary makes those of large models some MiB long. */
const FIRST_BYTES = 64 << 10;
const CHUNK_BYTES = 1 << 20;
const MAX_KEPT = 1_024;
/** Real ones have some KiB; an index of a very large model some MiB. */
const MAX_CONFIG_BYTES = 32 << 20;

interface Known {
  readonly mark: string;
  readonly header: GgufHeader;
}

/** A cache of headers by path, mtime and size; two concurrent calls may read a file twice, which does no harm. */
export function createInspector(): (model: StoredModel) => Promise<ModelFacts> {
  const known = new Map<string, Known>();
  return async (model) => {
    const { sizeBytes } = model;
    const projectorBytes = sum(model.files.filter((file) => file.isProjector).map((file) => file.sizeBytes));
    const parts = weightsOf(model);
    if (parts.length === 0) return { sizeBytes, projectorBytes, ...(await inspectMlx(model)) };
    try {
      const headers: GgufHeader[] = [];
      for (const part of parts) headers.push(await headerOf(part, known));
      return { sizeBytes, projectorBytes, ...joined(headers, parts) };
    } catch (error) {
      if (!(error instanceof MetalbridgeError)) throw error;
      return { sizeBytes, projectorBytes, problem: { code: error.code, message: error.message } };
    }
  };
}

/** The GGUF files of the weights; a single file without an extension is inspected too. */
function weightsOf({ files }: StoredModel): readonly StoredFile[] {
  const weights = files.filter((file) => !file.isProjector);
  const named = weights.filter(({ name }) => name.toLowerCase().endsWith(".gguf"));
  if (named.length > 0) return named;
  return weights.length === 1 && extname(weights[0]?.name ?? "") === "" ? weights : [];
}

function joined(headers: readonly GgufHeader[], parts: readonly StoredFile[]): Pick<ModelFacts, "gguf"> {
  const [first, ...others] = headers;
  if (first === undefined) return {};
  const gguf = summarizeGguf(first, ...others);
  // A tensor type that is not known yet: its file is never smaller than its tensors.
  return { gguf: { ...gguf, weightsBytes: gguf.weightsBytes ?? sum(parts.map((part) => part.sizeBytes)) } };
}

async function headerOf({ path, name }: StoredFile, known: Map<string, Known>): Promise<GgufHeader> {
  try {
    const file = await open(path);
    try {
      const { size, mtimeMs } = await file.stat();
      const mark = `${size} ${mtimeMs}`;
      const before = known.get(path);
      if (before?.mark === mark) return before.header;
      const header = await readHeader(file, size);
      keep(known, path, { mark, header });
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

/** Of a folder of safetensors: its `config.json`, and how large its weights are. Empty where there is no configuration that can be read: then nothing is known, and nothing is admitted. */
async function inspectMlx({ files }: StoredModel): Promise<Pick<ModelFacts, "gguf" | "problem">> {
  const weights = files.filter(({ name }) => name.endsWith(".safetensors"));
  const config = parseMlxConfig(await textOf(files, "config.json"));
  if (weights.length === 0 || config === undefined) return {};
  const onDisk = weights.reduce((total, { sizeBytes }) => total + sizeBytes, 0);
  const indexed = parseSafetensorsIndex(await textOf(files, "model.safetensors.index.json")) ?? 0;
  if (indexed > onDisk) {
    const message = `the weights have ${onDisk} bytes, their index describes ${indexed}`;
    return { problem: { code: "GgufTruncated", message } };
  }
  return { gguf: summarizeMlx(config, onDisk) };
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

function keep(known: Map<string, Known>, path: string, entry: Known): void {
  known.delete(path);
  known.set(path, entry);
  const [oldest] = known.keys();
  if (known.size > MAX_KEPT && oldest !== undefined) known.delete(oldest);
}

function sum(values: readonly (number | undefined)[]): number {
  return values.reduce<number>((total, value) => total + (value ?? 0), 0);
}
