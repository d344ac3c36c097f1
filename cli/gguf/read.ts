/** Reads what a GGUF file is: on this machine, or at an address, from its header alone. */
import { open, stat } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { SourceFailure } from "../../src/hub/failure.ts";
import { createInspectSource } from "../../src/hub/inspect/inspect.ts";
import { createGgufReader } from "../../src/models/gguf/header.ts";
import { type GgufSummary, summarizeGguf } from "../../src/models/gguf/summary.ts";
import type { GgufHeader } from "../../src/models/gguf/types.ts";
import type { RemoteSource } from "../../src/models/source/kinds/registry.ts";
import { isRemote, parseSource } from "../../src/models/source/parse.ts";
import { splitFileNames } from "../../src/models/source/split-files.ts";

export interface ReadGguf {
  readonly summary: GgufSummary;
  /** Total of all parts; undefined if the server does not send a size. */
  readonly sizeBytes: number | undefined;
}

/** Throws MetalbridgeError for what is no readable GGUF. `quantization` chooses among the files of a repository. */
export async function readGguf(name: string, quantization?: string): Promise<ReadGguf> {
  if (!name.includes("://")) return readParts(resolve(name));
  const source = parseSource(name);
  if (source.kind === "file") return readParts(source.path);
  if (!isRemote(source)) {
    throw new MetalbridgeError(
      "SourceNotSupported",
      `${source.kind}:// sources cannot be read by this command`,
      {
        summary:
          "give a path, an http(s):// address, hf://org/repo, oci://registry/repository:tag or ollama://name:tag",
      },
    );
  }
  return readRemote(source, quantization);
}

/** The user of this command may read whatever this machine may read. */
const inspect = createInspectSource({
  hfEndpoint: "https://huggingface.co",
  inspectMs: 60_000,
  maxHeaderBytes: 128 << 20,
  rules: { allowLoopback: true, allowPrivate: true, connectMs: 10_000, stallMs: 15_000, maxRedirects: 10 },
});

async function readRemote(source: RemoteSource, quantization: string | undefined): Promise<ReadGguf> {
  try {
    const request = {
      source,
      selector: { format: "gguf" as const, quantization },
      signal: new AbortController().signal,
    };
    const { gguf, sizeBytes } = await inspect(request);
    if (gguf === undefined) throw new MetalbridgeError("SourceIsNotAModel", "the source holds no GGUF file");
    return { summary: gguf, sizeBytes };
  } catch (error) {
    throw error instanceof SourceFailure ? error.error : error;
  }
}

async function readParts(path: string): Promise<ReadGguf> {
  const names = splitFileNames(basename(path)).map((name) => join(dirname(path), name));
  const parts: { readonly header: GgufHeader; readonly sizeBytes: number }[] = [];
  for (const name of names) parts.push(await readFile(name));
  const [first, ...others] = parts;
  if (first === undefined) throw new MetalbridgeError("SourceNotFound", `${path} does not exist`);
  const sizeBytes = parts.reduce((sum, part) => sum + part.sizeBytes, 0);
  const summary = summarizeGguf(first.header, ...others.map(({ header }) => header));
  return { summary: { ...summary, weightsBytes: summary.weightsBytes ?? sizeBytes }, sizeBytes };
}

const CHUNK_BYTES = 1 << 20;

async function readFile(path: string): Promise<{ header: GgufHeader; sizeBytes: number }> {
  const { size, isFile } = await stat(path).then(
    (found) => ({ size: found.size, isFile: found.isFile() }),
    (cause: unknown) => {
      throw new MetalbridgeError("SourceNotFound", `${path} does not exist or cannot be seen`, undefined, {
        cause,
      });
    },
  );
  if (!isFile) throw new MetalbridgeError("FileUnreadable", `${path} is not a regular file`);
  const file = await open(path).catch((cause: unknown) => {
    throw new MetalbridgeError("FileUnreadable", `${path} cannot be read`, undefined, { cause });
  });
  try {
    const reader = createGgufReader();
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (;;) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length);
      if (bytesRead === 0) throw reader.cutOff();
      const progress = reader.feed(chunk.subarray(0, bytesRead));
      if (!progress.done) continue;
      const least = progress.header.dataOffset + progress.header.dataBytes;
      if (size < least)
        throw new MetalbridgeError(
          "GgufTruncated",
          `the file has ${size} bytes, its header describes ${least}`,
        );
      return { header: progress.header, sizeBytes: size };
    }
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    throw new MetalbridgeError(error.code, `${path}: ${error.message}`, error.remedy, { cause: error });
  } finally {
    await file.close();
  }
}
